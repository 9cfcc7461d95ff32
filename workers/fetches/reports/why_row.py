"""What is read of a fetch that waits, and of all that can keep it waiting: a row of sql/why.sql."""

from datetime import datetime, timedelta
from typing import NamedTuple

from workers.fetches.reports.forecast import FoundRun


class Waiting(NamedTuple):
    """A fetch, and what can keep it waiting (sql/why.sql). All from `written_rate` on is None without a site."""

    id: int
    state: str
    site_id: int | None
    site: str
    origin: str | None
    attempts: int
    max_attempts: int
    status_code: int | None
    error: str
    not_before: datetime
    waits_for_robots: bool
    finished_at: datetime | None
    claimed_by: int | None
    lease_until: datetime | None
    slot_start: datetime | None
    now: datetime
    written_rate: str
    interval: timedelta
    effective_interval: timedelta
    burst: int
    max_concurrency: int | None
    paused_until: datetime | None
    backed_off_until: datetime | None
    backoff_error: str
    backoff_level: int
    spacing_s: float
    grace_s: float
    reserved_for_s: float
    obeys_robots: bool
    robots_state: str | None
    robots_error: str | None
    robots_expires_at: datetime | None
    robots_fetch: int | None
    robots_fetch_state: str | None
    ahead: int
    at_once: int
    held_runs: list[FoundRun]
