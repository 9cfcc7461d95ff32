"""How the fake sites were paced: pure functions of the arrivals in their log.

Times and gaps are whole nanoseconds, so that "too early" is never a matter of rounding. Intervals are in seconds, as
rates are configured. A log is not in the order of arrival: functions that take arrivals sort them; functions that take
`times` expect those of one host, the earliest first.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from demo.fakes.site_log import Arrival

NANOSECONDS = 1_000_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """How one host was paced; a value is None if too few requests came to judge it.

    `used_share` is of the allowed rate; `recent_rate` is in requests a second.
    """

    host: str
    count: int
    shortest_gap_ns: int | None
    early_starts: int
    used_share: float | None
    recent_rate: float


def times_by_host(arrivals: Iterable[Arrival]) -> dict[str, list[int]]:
    """Return each host's times of arrival in ns, the earliest first."""
    times = defaultdict(list)
    for arrival in arrivals:
        times[arrival.host].append(arrival.at_ns)
    return {host: sorted(unsorted) for host, unsorted in times.items()}


def gaps_ns(arrivals: Iterable[Arrival]) -> list[int]:
    """Return the gaps between consecutive arrivals at the same host, one host after the other."""
    return [gap for times in times_by_host(arrivals).values() for gap in _gaps(times)]


def gap_ratios(arrivals: Iterable[Arrival], intervals: Mapping[str, float]) -> list[float]:
    """Return each gap divided by its host's interval in seconds: 1.0 is exactly on time."""
    return [
        gap / (intervals[host] * NANOSECONDS) for host, times in times_by_host(arrivals).items() for gap in _gaps(times)
    ]


def early_starts(times: Sequence[int], interval_s: float, burst: int = 1) -> int:
    """Count the arrivals that came before the interval and the burst allowed them.

    With a burst of 1 an arrival is early if the gap before it is shorter than the interval. With a larger burst,
    arrival j is early if it came less than (j - i - burst + 1) intervals after some earlier arrival i: sooner than any
    GCRA (ITU-T I.371) of that interval and burst allows. The count is 0 exactly if a GCRA would let all of them pass.
    An early arrival uses up allowance like any other.
    """
    interval = _ns(interval_s)
    if burst == 1:
        return sum(gap < interval for gap in _gaps(times))
    early = 0
    latest_clock: int | None = None  # the largest at_i - i * interval so far: the i that binds most
    for index, at_ns in enumerate(times):
        clock = at_ns - index * interval
        if latest_clock is not None and clock + (burst - 1) * interval < latest_clock:
            early += 1
        latest_clock = clock if latest_clock is None else max(latest_clock, clock)
    return early


def used_share(
    times: Sequence[int], interval_s: float, *, from_ns: int | None = None, until_ns: int | None = None
) -> float | None:
    """Return the rate of the arrivals as a share of the allowed rate, from the first arrival to the last.

    1.0 is exactly one request an interval. The window includes both of its ends. None if it holds no two arrivals at
    different times.
    """
    held = [
        at_ns for at_ns in times if (from_ns is None or at_ns >= from_ns) and (until_ns is None or at_ns <= until_ns)
    ]
    if not held or held[0] == held[-1]:
        return None
    return (len(held) - 1) * interval_s * NANOSECONDS / (held[-1] - held[0])


def recent_rate(times: Iterable[int], *, until_ns: int, seconds: float) -> float:
    """Return the arrivals a second over the last `seconds`, up to and including `until_ns`."""
    since_ns = until_ns - _ns(seconds)
    return sum(since_ns < at_ns <= until_ns for at_ns in times) / seconds


def verdicts(
    arrivals: Iterable[Arrival],
    intervals: Mapping[str, float],
    *,
    bursts: Mapping[str, int] | None = None,
    from_ns: int | None = None,
    until_ns: int | None = None,
    recent_s: float = 5.0,
) -> dict[str, Verdict]:
    """Return the verdict on each host that was asked, given its interval in seconds and its burst (default 1).

    The window limits `used_share` only; all arrivals are counted and judged. `recent_rate` is that of the `recent_s`
    before the window's end, or before the last arrival of all. KeyError for a host without an interval: it must not
    pass unjudged.
    """
    by_host = times_by_host(arrivals)
    now_ns = until_ns if until_ns is not None else max((times[-1] for times in by_host.values()), default=0)
    return {
        host: Verdict(
            host=host,
            count=len(times),
            shortest_gap_ns=min(_gaps(times), default=None),
            early_starts=early_starts(times, intervals[host], (bursts or {}).get(host, 1)),
            used_share=used_share(times, intervals[host], from_ns=from_ns, until_ns=until_ns),
            recent_rate=recent_rate(times, until_ns=now_ns, seconds=recent_s),
        )
        for host, times in by_host.items()
    }


def percentile(values: Iterable[float], q: float) -> float:
    """Return the value that `q` percent (0 to 100) of the values do not exceed, interpolated."""
    ordered = sorted(values)
    if not ordered or not 0 <= q <= 100:  # noqa: PLR2004 a percentage
        raise ValueError(f"There is no percentile {q} of {len(ordered)} values.")
    position = (len(ordered) - 1) * q / 100
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def _gaps(times: Sequence[int]) -> list[int]:
    return [later - earlier for earlier, later in pairwise(times)]


def _ns(seconds: float) -> int:
    return round(seconds * NANOSECONDS)
