"""How callers' notes are judged: pure.

A violation is a start less than the interval after the site's start before it, by whichever process. The time of a
start is when its caller could go ahead: Weir's caller has waited for its slot and found that it may still use it, the
others' caller has just heard yes. All times are of one clock, CLOCK_MONOTONIC, which is the same in all processes.
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
    """What so many callers got of one limiter, in one turn or in all."""

    starts: int
    violations: int
    shortest_gap: float | None  # in intervals; None where no two starts were at one site
    refusals: int
    granted: int
    per_s: float
    granted_calls_ns: list[int]

    @property
    def refusals_per_grant(self) -> float:
        """Return how often a caller had to ask again, for each time that it was granted something."""
        return self.refusals / self.granted

    @property
    def p99_ms(self) -> float:
        """Return how long a granted call took at the 99th percentile."""
        return percentile(self.granted_calls_ns, 99) / 1e6


def judge(noted: Iterable[Notes], scenario: Scenario) -> Score:
    """Return what all callers of one turn got together."""
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
        per_s=(starts if interval_s else granted) / scenario.turn_s,
        granted_calls_ns=[taken for notes in noted for taken in notes.granted_calls_ns],
    )


def total(turns: list[Score]) -> Score:
    """Return all turns of one limiter as one; the rate is the turns' median."""
    return Score(
        starts=sum(turn.starts for turn in turns),
        violations=sum(turn.violations for turn in turns),
        shortest_gap=min((turn.shortest_gap for turn in turns if turn.shortest_gap is not None), default=None),
        refusals=sum(turn.refusals for turn in turns),
        granted=sum(turn.granted for turn in turns),
        per_s=median(turn.per_s for turn in turns),
        granted_calls_ns=[taken for turn in turns for taken in turn.granted_calls_ns],
    )
