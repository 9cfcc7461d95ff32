"""The changes of a site: its rate and limits, a pause, a back-off, a crawl delay.

Each call commits by itself, refuses to run inside `transaction.atomic()`, and takes effect immediately in all
processes: if it affects slots that are reserved already, it recalls them (see weir.ratelimit.pacing).
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime, timedelta
from enum import Enum
from functools import partial
from random import random
from typing import Final

from django.db import OperationalError, transaction
from psycopg.errors import LockNotAvailable

from weir.conf import settings
from weir.conf.texts.rates import parse_rate, spelled
from weir.postgres import own_commits
from weir.postgres.moments import in_utc
from weir.postgres.statements import Statement
from weir.ratelimit import site_names
from weir.ratelimit.changing.declared import SETTINGS, usable
from weir.ratelimit.changing.rows import BackedOffSite, ChangedSite, HeldSite, RecalledSite
from weir.ratelimit.changing.values import check_stated
from weir.ratelimit.models import FARTHEST_S, LONG_AGO, LONGEST_REASON, PAUSED_FOREVER, Site
from weir.ratelimit.pacing import CONFIRMED_FOR_S
from weir.ratelimit.sites import LOCK, LOCK_SITE_NAMES, UnknownSite, known_sites, unknown_site

BACK_OFF = Statement("back_off", row=BackedOffSite, commits=True)
HOLD_SITE = Statement("hold_site", row=HeldSite, commits=False)
PAUSE_SITE = Statement("pause_site", commits=False)
PULL_BACK = Statement("pull_back", commits=True)
RECALL = Statement("recall", row=RecalledSite, commits=True)
RESUME_SITE = Statement("resume_site", commits=False)
SET_CRAWL_DELAY = Statement("set_crawl_delay", commits=True)
SET_RATE = Statement("set_rate", row=ChangedSite, commits=False)
SPLIT_SITE = Statement("split_site", row=RecalledSite, commits=False)

# Seconds: the first and the longest back-off without a stated time, and (QUIET) the shortest time without a refusal
# after which the next back-off counts as the first again.
SHORTEST_BACK_OFF = 5.0
LONGEST_BACK_OFF = 3_600.0
LONGEST_UNREACHABLE = 40.0  # seconds, and up to half more: vain attempts to connect do not burden the site
LONGEST_ERROR: Final = 300  # characters of Site.backoff_error
QUIET = 60.0
# Seconds: how long set_rate waits for other transactions in all, and how long at a time, while others queue behind it.
PATIENCE_S = 30.0
LOCKED_AT_MOST_S = 0.5
RECALLING: Final = {setting.name for setting in SETTINGS if setting.recalls}
MOST_PULLS = 5  # how many times set_rate tries to set a clock back while other processes go on reserving


class Default(Enum):
    """Restores a setting's default."""

    DEFAULT = "default"


DEFAULT = Default.DEFAULT
# Returns a context manager that accompanies a change: each attempt enters and leaves it in the change's transaction.
Within = Callable[[], AbstractContextManager[object]]


class SiteBusy(Exception):
    """Other transactions locked the site's row too long: nothing has changed."""


def set_rate(
    site: str,
    rate: str | None = None,
    *,
    burst: int | None = None,
    max_concurrency: int | Default | None = None,
    grace: timedelta | Default | None = None,
    covers_subdomains: bool | None = None,
    obeys_robots: bool | Default | None = None,
    refusing: Collection[int] | Default | None = None,
    headers: Mapping[str, str] | Default | None = None,
    query: Mapping[str, str] | Default | None = None,
    network: Mapping[str, str] | Default | None = None,
    weights: Mapping[str, int] | Default | None = None,
    within: Within = nullcontext,
) -> None:
    """Create a site, or change its rate. A setting that is None stays as it is; DEFAULT restores its default.

    Takes effect immediately, in all processes: reserved slots are recalled if the change affects them. If slots were
    reserved farther ahead than the new rate needs, this waits half a second, until no holder relies on them, and sets
    the site's clock back. A faster rate then begins immediately.

    A site that is created, or begins or ceases to cover subdomains, splits the site to which its hosts belonged. The
    slots that are reserved at that site are recalled, too. From half a second after it, no host is asked sooner after
    its last request than its new site's interval. Queued fetches of these hosts follow, a few thousand a second.

    `refusing` lists the statuses that refuse more requests; 429 and 503 always do, and by default 403, 413, 420, 502,
    529 and 999, if the answer says until when. By name, instead of the ones before: the `headers` of each request, the
    `query` parameters that each URL gets, `proxy`, `ca` and `certificate` of the `network`, and as `weights` how many
    fetches (1 to 100) a share (`request_fetches`) gets in each of its turns. `{secret:NAME}` stands for a secret, in a
    header `{token:NAME}` for an access token.

    Raises InvalidRate; UnknownSite if the site does not exist and `rate` is None; ValueError for a burst outside 1 to
    10,000, a concurrency below 1, a grace outside 15 ms to one day, a status outside 400 to 999, more than 20 statuses,
    and unusable headers, queries, networks and weights; TypeError if they are no texts; SiteBusy if the site is locked.
    """
    named: dict[str, object] = {"burst": burst, "max_concurrency": max_concurrency, "grace": grace, "weights": weights}
    named |= {"covers_subdomains": covers_subdomains, "obeys_robots": obeys_robots, "network": network}
    stored = usable(named | {"refusing": refusing, "headers": headers, "query": query}, DEFAULT)
    site = site_names.canonical(site)
    interval, written = (None, None) if rate is None else (parse_rate(rate), spelled(rate))
    own_commits.refuse_transaction("set_rate")
    changed = _change_patiently(site, partial(_changed, site, interval, written, stored, within))
    _pull_back([row for row in changed if row.is_reserved_ahead])


def set_crawl_delay(site_id: int, delay: timedelta | None) -> bool:
    """Set the crawl delay that robots.txt asks for (None: no delay); returns whether that changed anything."""
    return bool(SET_CRAWL_DELAY(site=site_id, crawl_delay=delay))


def pause(site: str, duration: timedelta | None = None, *, within: Within = nullcontext) -> None:
    """Start nothing at the site: for `duration`, or until it is resumed. Replaces an earlier pause.

    Reserved slots are recalled. A holder that has just asked for recalls may still start within the next half second.
    Raises UnknownSite, and ValueError for a duration outside 0 to 100 years.
    """
    if duration is not None and not timedelta(0) <= duration <= timedelta(seconds=FARTHEST_S):
        raise ValueError(f"duration must not be negative, and at most 100 years, but is {duration}.")
    seconds = None if duration is None else duration.total_seconds()
    _change_one(PAUSE_SITE, site_names.canonical(site), within, seconds=seconds, forever=PAUSED_FOREVER)


def resume(site: str, *, within: Within = nullcontext) -> None:
    """End a pause and a back-off. The clock stays, so the interval since the last start holds. Raises UnknownSite."""
    _change_one(RESUME_SITE, site_names.canonical(site), within)


def back_off(
    site: str,
    seconds: float | None = None,
    *,
    until: datetime | None = None,
    slot: int | None = None,
    error: str = "",
    reason: str = "",
    patience_s: float | None = None,
) -> float | None:
    """Start nothing at a site that refuses requests: for `seconds`, or up to the time `until`, in any process.

    `error` says why the site cannot be reached, if that is the cause. Without a stated time, the site is then tried
    again at least once a minute. `reason` is the site's answer, for people.

    Of overlapping back-offs, the longest counts. A stated time is cut to WEIR_RETRY_AFTER_MAX. Without one, the time
    doubles with each back-off in a row, from 5 s to an hour, and up to half of it is added at random. The series ends
    when the site has refused nothing for as long as the next back-off would last, and for at least a minute.

    `slot` is the slot whose start was refused. Refusals in slots that were reserved before the last back-off belong to
    that back-off, and count once. Reserved slots are recalled.

    Returns the back-off in seconds, or None if nothing changed. Raises UnknownSite; ValueError for a negative time, a
    naive `until`, and both times at once; and SiteBusy if other transactions lock the site's row for longer than
    `patience_s`.
    """
    check_stated(seconds, until)
    until = in_utc("until", until)
    said = {"slot": slot, "error": error[:LONGEST_ERROR], "reason": reason[:LONGEST_REASON]}
    return _leave_alone(site, {"seconds": seconds, "until": until, **said}, patience_s, is_refusal=True)


def rest(
    site: str,
    seconds: float | None = None,
    *,
    until: datetime | None = None,
    reason: str,
    patience_s: float | None = None,
) -> float | None:
    """Start nothing at a site whose quota is used up: for `seconds`, or up to the time `until`, in any process.

    This is like a back-off, but the site has refused nothing, so that later back-offs do not become longer. Without a
    time, or with a time in the past, nothing changes.
    """
    check_stated(seconds, until)
    until = in_utc("until", until)
    said = {"slot": None, "error": "", "reason": reason[:LONGEST_REASON]}
    return _leave_alone(site, {"seconds": seconds, "until": until, **said}, patience_s, is_refusal=False)


def _leave_alone(
    site: str, stated: Mapping[str, object], patience_s: float | None, *, is_refusal: bool
) -> float | None:
    site = site_names.canonical(site)
    if known := known_sites({site}):
        site = known[site].name
    parameters = {
        **stated,
        "site": site,
        "is_refusal": is_refusal,
        "shortest": SHORTEST_BACK_OFF,
        "longest": LONGEST_UNREACHABLE if stated["error"] else LONGEST_BACK_OFF,
        "long_ago": LONG_AGO,
        "quiet": QUIET,
        "most": settings.WEIR_RETRY_AFTER_MAX,
        "chance": random(),  # noqa: S311  jitter
        "patience": f"{(patience_s or 0) * 1000:.0f}ms",
    }
    try:
        rows = BACK_OFF(**parameters)
    except OperationalError as failure:
        if isinstance(failure.__cause__, LockNotAvailable):
            raise SiteBusy(site) from failure
        raise
    if not rows and not Site.objects.filter(name=site).exists():
        raise UnknownSite(site)
    return rows[0].wait_s if rows else None


def _change_one(change: Statement[tuple[object, ...]], site: str, within: Within, **parameters: object) -> None:
    own_commits.refuse_transaction(change.name)
    with transaction.atomic(durable=True), within():
        if not change(site=site, **parameters):
            raise unknown_site(site)


def _change_patiently(site: str, change: Callable[[], list[RecalledSite]]) -> list[RecalledSite]:
    """Change the site. While others hold its locks, try again after pauses, in which those that wait for ours go on."""
    give_up_at = time.monotonic() + PATIENCE_S
    while True:
        try:
            with transaction.atomic(durable=True):
                return change()
        except OperationalError as error:
            if not isinstance(error.__cause__, LockNotAvailable):
                raise
            if time.monotonic() > give_up_at:
                raise SiteBusy(
                    f"Other transactions have held {site} for {PATIENCE_S:g} s: nothing was changed. "
                    "pg_stat_activity shows the oldest ones."
                ) from error
        time.sleep(LOCKED_AT_MOST_S)


def _changed(
    site: str, interval: timedelta | None, written_rate: str | None, stored: Mapping[str, object], within: Within
) -> list[RecalledSite]:
    """Change the site, and the sites that it splits, in the caller's transaction; returns the sites that were changed.

    1. The lock on site names is taken, so that no other transaction changes which site a host belongs to until this one
       ends. The rows are locked.
    2. The site is created, or its clock is moved. Its slots are recalled if the change affects them. Its settings are
       stored.
    3. If the site has taken over hosts from the nearest covering site above it, or has lost hosts to that site or to
       sites that do not exist yet, the slots of these sites are recalled, and their clocks are set.
    """
    above = site_names.ancestors(site)
    LOCK_SITE_NAMES(lock=LOCK, shared=False, patience=f"{LOCKED_AT_MOST_S * 1000:.0f}ms")
    held = HOLD_SITE(site=site, above=above)
    before = Site.objects.filter(name=site).first()
    with within():
        rows = SET_RATE(
            site=site,
            above=above,
            interval=interval,
            written_rate=written_rate,
            burst=stored.get("burst"),
            ignores_robots=stored.get("obeys_robots", before and before.obeys_robots) is False,
            changes=any(before and getattr(before, name) != stored[name] for name in RECALLING & stored.keys()),
            long_ago=LONG_AGO,
        )
        if not rows:
            raise unknown_site(site)
        Site.objects.filter(name=site).update(**stored)
    [changed] = rows
    itself = RecalledSite(changed.id, changed.next_start, bool(changed.is_reserved_ahead))
    covering = next((row.id for row in held if row.name != site), None)
    covered = before is not None and before.covers_subdomains
    covers = stored.get("covers_subdomains", covered)
    gains = before is None or (covers and not covered)
    if not gains and covers == covered:
        return [itself]
    loser, gainer = (covering, changed.id) if gains else (changed.id, covering)
    moved = SPLIT_SITE(loser=loser, gainer=gainer, above=above)
    return moved if changed.id in {site.id for site in moved} else [*moved, itself]


def _pull_back(reserved_ahead: Sequence[RecalledSite]) -> None:
    """Set back the clocks of sites whose slots were recalled, once no holder relies on these slots any more."""
    for _ in range(MOST_PULLS):
        if not reserved_ahead:
            return
        time.sleep(CONFIRMED_FOR_S)
        # If another process has reserved slots at a site meanwhile, these are recalled, too.
        again = [
            row
            for site in reserved_ahead
            if not PULL_BACK(site=site.id, reserved_until=site.next_start)
            for row in RECALL(site=site.id)
        ]
        reserved_ahead = [row for row in again if row.is_reserved_ahead]
