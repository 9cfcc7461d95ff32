"""What holds a site: who paused it, and why, as the audit trail has it; and when it is tried again after a back-off."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final, NamedTuple, Protocol

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

    A site is left out if its newest entry is about another pause: then code has made this one, without an entry.
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


class TriedSite(Protocol):
    """The columns of a site that say when it is tried again."""

    @property
    def backed_off_until(self) -> datetime | None: ...
    @property
    def next_start(self) -> datetime: ...
    @property
    def effective_interval(self) -> timedelta: ...
    @property
    def due_at(self) -> datetime | None: ...


def next_try(site: TriedSite) -> datetime | None:
    """Return when the next fetch may start at a site that is backed off or unreachable; past if one may be in flight.

    That is the end of the back-off, or later if the site's clock, or the first fetch to come, is not ready then. The
    clock does not count if a slot behind the back-off is reserved, which has moved it. None: it was never backed off.
    """
    if (until := site.backed_off_until) is None:
        return None
    is_reserved = site.next_start - site.effective_interval >= until
    return max(until, until if is_reserved else site.next_start, site.due_at or until)
