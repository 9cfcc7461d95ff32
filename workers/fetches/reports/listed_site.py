"""A site of the site list: its row, and what follows from it and from its backlog."""

import math
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from weir.ratelimit.models import PAUSED_FOREVER, TRIED_STATES
from weir.workers.fetches.reports.holds import SitePause, next_try

LATELY_S: Final = 60.0  # seconds over which the seen rate is counted


class ListedSite(NamedTuple):
    """The row of a site."""

    id: int
    name: str
    interval: timedelta
    written_rate: str
    effective_interval: timedelta  # longer than `interval` if robots.txt asks for it
    spacing: timedelta
    burst: int
    max_concurrency: int | None
    covers_subdomains: bool
    obeys_robots: bool | None  # None: as WEIR_OBEY_ROBOTS says
    refusing: list[int] | None  # statuses with which it refuses; None: the usual ones
    paused_until: datetime | None  # may be over
    backed_off_until: datetime | None  # may be over
    refused_until: datetime | None  # not None: the site is not backed off, but rests, because a quota is used up
    backoff_error: str  # why the site is, or was, unreachable
    backoff_reason: str  # what the site answered when it refused, or when a quota was used up
    backoff_level: int  # back-offs in a row
    starts_out_of_time: int
    out_of_time_at: datetime | None  # the last of these starts
    next_start: datetime
    due_at: datetime | None
    held_state: str | None  # a HeldState; None: nothing holds it
    is_silent: bool  # it has answered nothing since its last refusal
    now: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class SiteStatus:
    """One site, at the moment at which the database was asked."""

    row: ListedSite
    backlog: int  # queued fetches, including those that are not due yet
    started: int  # starts that it used in the last minute
    pause: SitePause | None = None  # who paused it, if it is paused and that is known

    @property
    def reserved_for_s(self) -> float:
        """Return in how many seconds the site's next free start is."""
        return max(0.0, (self.row.next_start - self.row.now).total_seconds())

    @property
    def held_for_s(self) -> float:
        """Return in how many seconds the pause or rest ends, or the site is tried again; 0 if it is tried now."""
        ends = {"paused": self.row.paused_until, "resting": self.row.backed_off_until}
        until = ends.get(self.state, self.next_try)
        return max(0.0, (until - self.row.now).total_seconds()) if until else 0.0

    @property
    def next_try(self) -> datetime | None:
        """Return when a site that is backed off or unreachable is tried next; past if that may be now; else None."""
        return next_try(self.row) if self.row.held_state in TRIED_STATES else None

    @property
    def state(self) -> str:
        """Return paused, unreachable, backed off, resting, busy or idle."""
        is_busy = self.backlog or self.row.next_start > self.row.now
        return self.row.held_state or ("busy" if is_busy else "idle")

    @property
    def seen_per_s(self) -> float:
        return self.started / LATELY_S

    @property
    def share(self) -> float:
        """Return how much of its rate the site used in the last minute; 1 is all."""
        return self.started * self.row.effective_interval.total_seconds() / LATELY_S

    @property
    def clears_in_s(self) -> float:
        """Return in about how many seconds nothing waits, if nothing is added.

        Infinite while the site is paused until resumed, or has not answered since its last refusal (`row.is_silent`).
        """
        if not self.backlog:
            return 0.0
        if self.is_halted or self.row.is_silent:
            return math.inf
        return max(self.reserved_for_s, self.held_for_s) + self.backlog * self.row.spacing.total_seconds()

    @property
    def is_halted(self) -> bool:
        """Return whether the site is paused until somebody resumes it."""
        return self.row.paused_until is not None and self.row.paused_until >= PAUSED_FOREVER
