"""Site status: everything that is known about one site."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from django.db.models.functions import Now

from weir.postgres.statements import Statement
from weir.ratelimit import site_names
from weir.ratelimit.models import TRIED_STATES, Site, held_state
from weir.ratelimit.sites import unknown_site
from weir.workers.fetches.models import Fetch, FetchState, RobotsFile
from weir.workers.fetches.reports.forecast import Forecast, forecast
from weir.workers.fetches.reports.holds import SitePause, next_try, pauses

MOST_ROBOTS = 5  # robots.txt files of one site that are shown
MOST_SHARES, SHARES_LOOKED_AT = 20, 100  # shares of one site that are shown, and among which these are found
COUNTED_OF_SHARE = 1_000  # queued fetches of a share that are counted
LOOKED_AT = 1_000  # queued fetches, for the last error


class SiteNow(NamedTuple):
    """The row of a site, and the time by the database's clock."""

    site: Site
    back_off: str | None  # unreachable, backed off, resting, or None; a pause may come on top
    now: datetime

    @property
    def is_paused(self) -> bool:
        return self.site.paused_until is not None and self.site.paused_until > self.now

    @property
    def state(self) -> str:
        """Return paused, unreachable, backed off, resting or running."""
        return "paused" if self.is_paused else self.back_off or "running"

    @property
    def next_try(self) -> datetime | None:
        """Return when a site that is backed off or unreachable is tried next; past if that may be now; else None."""
        return next_try(self.site) if self.back_off in TRIED_STATES else None


class WaitingShare(NamedTuple):
    """A share that waits for its turns at a site; the empty name is that of fetches without a share."""

    share: str
    weight: int
    queued: int  # COUNTED_OF_SHARE + 1: more

    @property
    def said(self) -> str:
        """Return how many wait, in words."""
        return f"{self.queued:,}" if self.queued <= COUNTED_OF_SHARE else f"more than {COUNTED_OF_SHARE:,}"


WAITING_SHARES = Statement("waiting_shares", row=WaitingShare, commits=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class SiteDetails:
    """Everything that is known about one site."""

    at: SiteNow
    expected: Forecast
    pause: SitePause | None  # who paused it, if it is paused and that is known
    shares: Sequence[WaitingShare]  # those of its first shares that have most queued fetches; empty without shares
    robots: Sequence[RobotsFile]  # robots.txt files that still count, at most MOST_ROBOTS
    last_error: str  # of the first queued fetch that has one; else why the site is, or was, unreachable; or ""


def site_now(host: str) -> SiteNow:
    """Return the row of the site of this name, and the time; one query.

    Raises UnknownSite, and InvalidSiteName for a text that does not name a host.
    """
    site = (
        Site.objects.annotate(now=Now(), back_off=held_state(beneath_pause=True))
        .filter(name=site_names.canonical(host))
        .first()
    )
    if site is None:
        raise unknown_site(host)
    return SiteNow(site, vars(site)["back_off"], vars(site)["now"])


def site_details(host: str) -> SiteDetails:
    """Return everything that is known about the site of this name. Reads only, and counts the site's queue.

    Raises UnknownSite, and InvalidSiteName for a text that does not name a host.
    """
    at = site_now(host)
    site = at.site
    known = RobotsFile.objects.filter(site=site, expires_at__gt=Now()).defer("rules").order_by("-expires_at", "origin")
    queue = Fetch.objects.filter(site=site, state=FetchState.QUEUED).order_by("-priority", "not_before", "pk")
    errors = (error for error in queue.values_list("error", flat=True)[:LOOKED_AT] if error)
    return SiteDetails(
        at=at,
        expected=forecast(site.name),
        pause=pauses({site.name: site.paused_until}).get(site.name) if at.is_paused else None,
        shares=WAITING_SHARES(site=site.pk, most=MOST_SHARES, looked_at=SHARES_LOOKED_AT, counted=COUNTED_OF_SHARE),
        robots=list(known[:MOST_ROBOTS]),
        last_error=next(errors, site.backoff_error),
    )
