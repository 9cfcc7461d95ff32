"""Site status: the sites as an operator looks at them, with their rates, backlogs and states."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from postgres import statements

_query = partial(statements.run_within, "workers.fetches.reports")


@dataclass(frozen=True, kw_only=True, slots=True)
class SiteStatus:
    """One site, at the moment at which the database was asked."""

    name: str
    interval: timedelta
    effective_interval: timedelta  # longer where robots.txt asks for it
    burst: int
    max_concurrency: int | None
    covers_subdomains: bool
    obeys_robots: bool | None  # None: as WEIR_OBEY_ROBOTS says
    backlog: int  # queued fetches, with those that are not due yet
    reserved_for_s: float  # until the site's next free start, by the database's clock
    state: str  # paused | unreachable | backed off | busy | idle
    paused_until: datetime | None  # may be over
    held_for_s: float  # until the pause, or else the back-off, ends
    backoff_error: str  # why the site is, or was, unreachable


def busiest_sites(most: int | None) -> tuple[list[SiteStatus], int]:
    """Return the `most` (None: all) busiest sites, busiest first, and how many sites there are; one query."""
    rows = [row._asdict() for row in _query("site_status", {"limit": most})]
    total = rows[0]["total"] if rows else 0
    return [SiteStatus(**{name: row[name] for name in SiteStatus.__slots__}) for row in rows], total
