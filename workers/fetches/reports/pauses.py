"""Who paused a site, and why, as the audit trail has it. A pause that code has made has no entry there."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from weir.workers.audit.newest import newest

# The names of the actions in the audit trail.
PAUSE: Final = "sites.pause"
RESUME: Final = "sites.resume"
KEPT_TO: Final = timedelta(milliseconds=1)  # the audit trail has no microseconds


class SitePause(NamedTuple):
    """Who paused a site, and the reason that was given."""

    by: str
    why: str  # "" if no reason was given


def pauses(paused: Mapping[str, datetime | None]) -> dict[str, SitePause]:
    """Return, by name, who paused these sites; `paused` has the end of each site's pause. One statement at most.

    A site is left out if its newest entry is about another pause: then code has made this one.
    """
    found = {}
    for entry in newest(paused, (PAUSE, RESUME)):
        until = (entry.after or {}).get("paused_until")
        if entry.action == PAUSE and until and _is_end(until, paused[entry.target]):
            found[entry.target] = SitePause(entry.actor, entry.why)
    return found


def _is_end(kept: str, until: datetime | None) -> bool:
    """Return whether the entry is about the pause that ends then."""
    return until is not None and timedelta(0) <= until - datetime.fromisoformat(kept) < KEPT_TO
