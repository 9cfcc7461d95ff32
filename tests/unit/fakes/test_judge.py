"""The judge of pacing: tables of numbers, and a comparison with brute force."""

import math
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demo.fakes.judge import (
    Verdict,
    early_starts,
    gap_ratios,
    gaps_ns,
    percentile,
    recent_rate,
    times_by_host,
    used_share,
    verdicts,
)
from demo.fakes.site_log import Answered, Arrival, read_answers, read_arrivals
from tests.cases import for_each

SECOND = 1_000_000_000


def arrivals(host: str, *seconds: float) -> list[Arrival]:
    return [Arrival(at_ns=round(second * SECOND), host=host, path="/ok") for second in seconds]


def times(*seconds: float) -> list[int]:
    return [round(second * SECOND) for second in seconds]


def test_gaps_are_taken_within_each_host() -> None:
    """A gap is between consecutive arrivals at one host, whatever other hosts get in between."""
    mixed = [*arrivals("a", 1, 2), *arrivals("b", 1.5), *arrivals("a", 4), *arrivals("b", 1.75)]
    assert gaps_ns(mixed) == [1 * SECOND, 2 * SECOND, SECOND // 4]


def test_gaps_do_not_depend_on_the_order_of_the_log() -> None:
    """The log is in the order of reading; gaps are in the order of arrival, and never negative."""
    assert gaps_ns(arrivals("a", 3, 1, 2.5)) == [1.5 * SECOND, 0.5 * SECOND]
    assert times_by_host(arrivals("a", 3, 1)) == {"a": times(1, 3)}


@for_each("seconds", [(), (5,)])
def test_fewer_than_two_arrivals_have_no_gap(seconds: tuple[float, ...]) -> None:
    """One arrival alone has no gap and no ratio."""
    assert gaps_ns(arrivals("a", *seconds)) == []
    assert gap_ratios(arrivals("a", *seconds), {"a": 1.0}) == []


def test_a_gap_ratio_is_measured_in_the_hosts_own_interval() -> None:
    """The same gap is half an interval at one host and two at another."""
    both = [*arrivals("slow", 0, 1), *arrivals("fast", 0, 1)]
    assert gap_ratios(both, {"slow": 2.0, "fast": 0.5}) == [0.5, 2.0]


@for_each(
    ("at", "interval_s", "burst", "early"),
    [
        ((), 1, 1, 0),
        ((7,), 1, 1, 0),
        ((0, 1, 2, 3), 1, 1, 0),
        ((0, 0.999999999), 1, 1, 1),
        ((0, 0.5, 1, 1.5), 1, 1, 3),
        ((0, 0.5, 1.5), 1, 1, 1),  # burst 1: only the gap before it makes an arrival early
        ((0, 0, 0), 1, 3, 0),
        ((0, 0, 0, 0), 1, 3, 1),
        ((0, 0, 0, 1, 2, 3), 1, 3, 0),
        ((0, 0, 0, 0.9), 1, 3, 1),
        ((0, 0, 0, 2, 2), 1, 3, 0),  # two intervals of silence give two back
        ((0, 0, 0, 2, 2, 2), 1, 3, 1),
        ((0, 0, 0, 100, 100, 100, 100), 1, 3, 1),  # silence gives back no more than the burst
        ((0, 0, 0, 1.5, 3), 1, 2, 2),  # an early start uses up allowance like any other: so 1.5 is early, too
    ],
)
def test_early_starts(at: tuple[float, ...], interval_s: float, burst: int, early: int) -> None:
    """Early is strictly sooner than allowed; a burst lends that many starts, and time gives them back."""
    assert early_starts(times(*at), interval_s, burst) == early


def test_a_third_of_a_second_is_not_lost_to_rounding() -> None:
    """Punctual arrivals are not early if the interval is no whole number of nanoseconds."""
    punctual = [round(index * SECOND / 3) for index in range(1_000)]
    assert early_starts(punctual, 1 / 3) == 0


def gcra_admits_all(arrived: Sequence[int], interval: int, burst: int) -> bool:
    """Return whether the textbook algorithm (ITU-T I.371, virtual scheduling) lets all of them pass."""
    theoretical = -math.inf
    for at_ns in arrived:
        if at_ns < theoretical - (burst - 1) * interval:
            return False
        theoretical = max(at_ns, theoretical) + interval
    return True


some_times = st.lists(st.integers(0, 60), max_size=25).map(sorted)


@given(arrived=some_times, interval=st.integers(1, 12), burst=st.integers(2, 5))
def test_early_starts_agree_with_comparing_every_pair(arrived: list[int], interval: int, burst: int) -> None:
    """One pass over the arrivals counts what comparing each with all before it counts."""
    early = sum(
        any(arrived[j] - arrived[i] < (j - i - burst + 1) * interval for i in range(j)) for j in range(len(arrived))
    )
    assert early_starts(arrived, interval / SECOND, burst) == early


@given(arrived=some_times, interval=st.integers(1, 12), burst=st.integers(1, 5))
def test_no_start_is_early_exactly_when_the_textbook_algorithm_admits_all(
    arrived: list[int], interval: int, burst: int
) -> None:
    """Traffic has no early start if a GCRA admits all of it, and has one if a GCRA does not."""
    assert (early_starts(arrived, interval / SECOND, burst) == 0) == gcra_admits_all(arrived, interval, burst)


@for_each(
    ("at", "window", "share"),
    [
        ((0, 1, 2, 3), (None, None), 1.0),
        ((0, 2, 4), (None, None), 0.5),
        ((0, 1, 2, 12), (0, 2), 1.0),  # what is outside the window does not count
        ((0, 1, 2, 12), (2, None), 0.1),
        ((0, 1, 2, 12), (None, 12), 0.25),  # both ends belong to it
        ((0, 1), (5, 9), None),
        ((0, 1), (1, 9), None),
        ((4, 4), (None, None), None),
        ((), (None, None), None),
    ],
)
def test_used_share(at: tuple[float, ...], window: tuple[int | None, int | None], share: float | None) -> None:
    """The share is starts taken per start allowed between the window's first and last arrival."""
    from_ns, until_ns = (None if edge is None else edge * SECOND for edge in window)
    assert used_share(times(*at), 1.0, from_ns=from_ns, until_ns=until_ns) == pytest.approx(share)


def test_the_recent_rate_is_of_the_last_seconds_only() -> None:
    """What is older than the last k seconds, or later than the moment asked about, is not in the rate."""
    at = times(1, 7.9, 8, 8.1, 9, 10, 10.1)
    assert recent_rate(at, until_ns=10 * SECOND, seconds=2.0) == 1.5


def test_each_host_has_its_own_verdict() -> None:
    """Each host is held to its own interval and burst, over all its arrivals."""
    log = [*arrivals("a", 0, 1, 1.5, 3.5, 4), *arrivals("b", 0, 0), *arrivals("c", 2)]
    found = verdicts(
        log,
        {"a": 1.0, "b": 1.0, "c": 1.0},
        bursts={"b": 2},
        from_ns=1 * SECOND,
        until_ns=7 * SECOND // 2,
        recent_s=2.0,
    )
    assert found == {
        "a": Verdict(host="a", count=5, shortest_gap_ns=SECOND // 2, early_starts=2, used_share=0.8, recent_rate=0.5),
        "b": Verdict(host="b", count=2, shortest_gap_ns=0, early_starts=0, used_share=None, recent_rate=0.0),
        "c": Verdict(host="c", count=1, shortest_gap_ns=None, early_starts=0, used_share=None, recent_rate=0.5),
    }


def test_recent_rates_end_at_the_last_arrival_of_all_hosts() -> None:
    """Without an end of the window, a host that went quiet has a recent rate of 0."""
    found = verdicts([*arrivals("a", 0, 1), *arrivals("b", 99)], {"a": 1.0, "b": 1.0}, recent_s=4.0)
    assert [found[host].recent_rate for host in "ab"] == [0.0, 0.25]


def test_a_host_without_an_interval_is_an_error() -> None:
    """A host for which no interval is given must not pass unjudged."""
    with pytest.raises(KeyError):
        verdicts(arrivals("stranger", 0, 1), {"a": 1.0})


@for_each(
    ("values", "q", "value"),
    [
        ([3], 50, 3),
        ([3, 1, 2], 0, 1),
        ([3, 1, 2], 50, 2),
        ([3, 1, 2], 100, 3),
        ([0, 10], 25, 2.5),
        ([0, 1, 2, 3, 4], 99, 3.96),
    ],
)
def test_percentile(values: list[float], q: float, value: float) -> None:
    """A percentile lies between the two values around its place, as far along as its place is."""
    assert percentile(values, q) == pytest.approx(value)


@for_each(("values", "q"), [([], 50), ([1.0], -1), ([1.0], 101)])
def test_a_percentile_that_does_not_exist_is_an_error(values: list[float], q: float) -> None:
    """No values have no percentile, and a percentage is from 0 to 100."""
    with pytest.raises(ValueError, match="no percentile"):
        percentile(values, q)


def test_the_log_is_read_on_from_where_it_was_left(tmp_path: Path) -> None:
    """Reading again from the returned offset gives what was written since, and nothing twice."""
    log = tmp_path / "requests.log"
    log.write_bytes(b"1 127.1.0.1 /a 127.0.0.1 1\n2 127.1.0.2 /b 127.0.0.9 7\n")
    first, offset = read_arrivals(log)
    with log.open("ab") as more:
        more.write(b"3 127.1.0.1 /c 127.0.0.1 2\n")
    second, end = read_arrivals(log, offset)
    assert first == [
        Arrival(at_ns=1, host="127.1.0.1", path="/a", client="127.0.0.1", place=1),
        Arrival(at_ns=2, host="127.1.0.2", path="/b", client="127.0.0.9", place=7),
    ]
    assert second == [Arrival(at_ns=3, host="127.1.0.1", path="/c", client="127.0.0.1", place=2)]
    assert (read_arrivals(log, end), end) == (([], end), log.stat().st_size)


def test_a_half_written_line_is_left_for_the_next_time(tmp_path: Path) -> None:
    """A last line without its end is not read, and is whole when read on from the offset."""
    log = tmp_path / "requests.log"
    log.write_bytes(b"1 127.1.0.1 /a 127.0.0.1 1\n22 127.1")
    first, offset = read_arrivals(log)
    with log.open("ab") as more:
        more.write(b".0.1 /b 127.0.0.1 1\n")
    second, _ = read_arrivals(log, offset)
    assert [arrival.at_ns for arrival in first] == [1]
    assert second == [Arrival(at_ns=22, host="127.1.0.1", path="/b", client="127.0.0.1")]


def test_any_bytes_in_a_path_can_be_read(tmp_path: Path) -> None:
    """A path that is not UTF-8, or holds what Python takes for a line's end, is one arrival."""
    log = tmp_path / "requests.log"
    log.write_bytes(b"1 127.1.0.1 /\xff\x85\x1c\xe2\x80\xa8 127.0.0.1 1\n")
    read, _ = read_arrivals(log)
    assert [arrival.at_ns for arrival in read] == [1]


def test_the_log_of_answers_is_read_like_that_of_requests(tmp_path: Path) -> None:
    """Each whole line is an answer with its status, and reading goes on from where it was left."""
    log = tmp_path / "answers.log"
    log.write_bytes(b"1 127.1.0.1 /a 200\n2 127.1.0.2 /b 4")
    first, offset = read_answers(log)
    with log.open("ab") as more:
        more.write(b"29\n")
    second, _ = read_answers(log, offset)
    assert first == [Answered(at_ns=1, host="127.1.0.1", path="/a", status=200)]
    assert second == [Answered(at_ns=2, host="127.1.0.2", path="/b", status=429)]
