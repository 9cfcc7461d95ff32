"""How the notes of the callers are judged: pure functions.

A violation is a start less than the interval after the previous start at the same site, by any caller. The time of a
start is when its caller could start: with Weir, when it has waited for its slot and checked that the slot may still be
used; with the others, when it has received the grant. All times are read from CLOCK_MONOTONIC, which all processes
share.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from benchmarks.reservations.callers import Notes
from benchmarks.reservations.scenarios import Scenario
from demo.fakes.judge import percentile


@dataclass(frozen=True, kw_only=True)
class Score:
    """The results of one limiter with one number of callers, in one turn or in all."""

    starts: int
    violations: int
    shortest_gap: float | None  # in intervals; None if no two starts were at one site
    refusals: int
    granted: int
    per_s: float
    granted_calls_ns: list[int]

    @property
    def refusals_per_grant(self) -> float:
        """Refusals for each granted call."""
        return self.refusals / self.granted

    @property
    def p99_ms(self) -> float:
        """The 99th percentile of the time of a granted call."""
        return percentile(self.granted_calls_ns, 99) / 1e6


def judge(noted: Iterable[Notes], scenario: Scenario) -> Score:
    """Return the results of all callers in one turn."""
    noted = list(noted)
    sites: dict[str, list[int]] = {}
    for site, at_ns in (start for notes in noted for start in notes.starts):
        sites.setdefault(site, []).append(at_ns)
    gaps_s = [(later - earlier) / 1e9 for times in sites.values() for earlier, later in pairwise(sorted(times))]
    interval_s = scenario.interval_s
    starts, granted = sum(map(len, sites.values())), sum(notes.granted for notes in noted)
    return Score(
        starts=starts,
        violations=sum(gap_s < interval_s for gap_s in gaps_s) if interval_s else 0,
        shortest_gap=min(gaps_s) / interval_s if interval_s and gaps_s else None,
        refusals=sum(notes.refusals for notes in noted),
        granted=granted,
        per_s=_per_s(sites, scenario) if interval_s else granted / scenario.turn_s,
        granted_calls_ns=[taken for notes in noted for taken in notes.granted_calls_ns],
    )


def _per_s(sites: dict[str, list[int]], scenario: Scenario) -> float:
    """Return the starts a second at all sites, after the warm-up."""
    times = [at_ns / 1e9 for of_site in sites.values() for at_ns in of_site]
    counted_from = min(times, default=0.0) + scenario.warm_up_s
    return sum(at >= counted_from for at in times) / (scenario.turn_s - scenario.warm_up_s)


def total(turns: list[Score]) -> Score:
    """Return the results of all turns of one limiter; the rate is the median of the turns."""
    return Score(
        starts=sum(turn.starts for turn in turns),
        violations=sum(turn.violations for turn in turns),
        shortest_gap=min((turn.shortest_gap for turn in turns if turn.shortest_gap is not None), default=None),
        refusals=sum(turn.refusals for turn in turns),
        granted=sum(turn.granted for turn in turns),
        per_s=median(turn.per_s for turn in turns),
        granted_calls_ns=[taken for turn in turns for taken in turn.granted_calls_ns],
    )
