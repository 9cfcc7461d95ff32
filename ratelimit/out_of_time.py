"""Counts starts that were written out of their time, and sets the clocks of their sites behind them.

A process that is stopped, or starved, between its look at the clock and its write may start after the end of its run,
or when its confirmation cannot be relied on any more (weir.ratelimit.pacing). Such a start cannot be undone. The holder
notices it directly after the write, and reports it here, so that no other start, in any process, comes too close after
it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from weir.postgres.statements import Statement
from weir.ratelimit import clock
from weir.ratelimit.sites import known_sites

MOST_SITES: Final = 500  # of one statement


@dataclass(frozen=True, kw_only=True, slots=True)
class OutOfTime:
    """Starts at one site that were out of their time: the slot of the last one, and when this one was written."""

    site: str
    slot_id: int
    at: float  # seconds on the holder's clock (clock.py); not before the actual start
    starts: int = 1


class NotedSite(NamedTuple):
    """A site whose clock was set behind a start out of its time: the next free start is `wait_s` seconds away."""

    name: str
    recalls: bool  # slots that others had reserved were recalled
    wait_s: float


START_OUT_OF_TIME = Statement("start_out_of_time", row=NotedSite, commits=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class Told:
    """What became of a call of `note`."""

    noted: Sequence[NotedSite] = ()
    left: Sequence[OutOfTime] = ()  # not noted: another transaction has locked the site's row, or there were too many
    unknown: Sequence[OutOfTime] = ()  # starts at sites that do not exist any more


def merged(starts: Iterable[OutOfTime]) -> list[OutOfTime]:
    """Return one entry for each site: the number of its starts, with the slot and the time of the last one."""
    by_site: dict[str, OutOfTime] = {}
    for start in starts:
        if other := by_site.get(start.site):
            last = max(start, other, key=lambda one: one.at)
            by_site[start.site] = replace(last, starts=start.starts + other.starts)
        else:
            by_site[start.site] = start
    return list(by_site.values())


def note(starts: Iterable[OutOfTime]) -> Told:
    """Count these starts, and set the clocks of their sites behind them, for all processes. Waits for no row lock.

    The next start that any process reserves at a site is at least an interval after the last of its starts. With a
    burst, each of them counts as one more start (GCRA). If slots are reserved behind the run of the last start, all
    slots of the site are recalled. Back-offs and pauses do not change. One statement notes the starts of up to
    MOST_SITES sites, and commits by itself. If its answer is lost, and `note` is called again, the starts count twice.
    """
    todo = merged(starts)
    now, later = todo[:MOST_SITES], todo[MOST_SITES:]
    known = known_sites({start.site for start in now})
    here = merged(replace(start, site=known[start.site].name) for start in now if start.site in known)
    unknown = [start for start in now if start.site not in known]
    noted = _note(here) if here else []
    done = {site.name for site in noted}
    return Told(noted=noted, left=[*later, *(start for start in here if start.site not in done)], unknown=unknown)


def _note(starts: Sequence[OutOfTime]) -> list[NotedSite]:
    asked_at = clock.now()
    parameters = {
        "names": [start.site for start in starts],
        "starts": [start.starts for start in starts],
        "slots": [start.slot_id for start in starts],
        "agos": [max(0.0, asked_at - start.at) for start in starts],
    }
    return START_OUT_OF_TIME(**parameters)
