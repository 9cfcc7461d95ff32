"""Site status: the sites as an operator looks at them, with their rates, backlogs and states."""

from datetime import datetime, timedelta
from functools import partial
from typing import NamedTuple

from postgres import statements

_query = partial(statements.run_within, "workers.fetches.reports")


class SiteStatus(NamedTuple):
    """One site, at the moment at which the database was asked."""

    name: str
    interval: timedelta
    effective_interval: timedelta  # longer where robots.txt asks for it
    burst: int
    max_concurrency: int | None
    covers_subdomains: bool
    obeys_robots: bool | None  # None: as WEIR_OBEY_ROBOTS says
    paused_until: datetime | None  # may be over
    backoff_error: str  # why the site is, or was, unreachable
    backlog: int  # queued fetches, with those that are not due yet
    reserved_for_s: float  # until the site's next free start, by the database's clock
    held_for_s: float  # until the pause, or else the back-off, ends
    state: str  # paused | unreachable | backed off | busy | idle
    total: int  # how many sites there are


def busiest_sites(most: int | None) -> tuple[list[SiteStatus], int]:
    """Return the `most` (None: all) busiest sites, busiest first, and how many sites there are; one query."""
    sites = _query("site_status", {"limit": most}, row=SiteStatus)
    return sites, sites[0].total if sites else 0
