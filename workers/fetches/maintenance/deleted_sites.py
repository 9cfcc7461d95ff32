"""Deleted sites: `manage.py sites delete`, the purge of idle sites, and fetches that are queued after the deletion.

1. A site is deleted in one transaction. Under the advisory lock of sites, no other process changes which site a host
   belongs to. Then the row is locked, and nothing is reserved there. Then the site is judged by all that was committed
   until then (weir/ratelimit/changing/deleting.py).
2. No constraint refers to sites. So a transaction that looked the site up before may be committed afterwards, and queue
   a fetch at a site that is gone: web code that was slow, a retry, a redirect. The fetch cannot start, because dispatch
   reserves at the rows of sites. A note of the deleted site is kept for a week (`DeletedSite`).
3. Sweep reads these notes, and moves such fetches to the sites to which their hosts belong now.
"""

import time
from collections.abc import Sequence
from contextlib import nullcontext
from typing import NamedTuple

from django.db import OperationalError, transaction
from psycopg.errors import LockNotAvailable

from weir.conf import settings
from weir.logs.loggers import get_logger
from weir.postgres.statements import Statement
from weir.ratelimit import site_names
from weir.ratelimit.changing import deleting
from weir.ratelimit.changing.deleting import JudgedSite
from weir.ratelimit.models import Site
from weir.ratelimit.site_settings import SiteBusy, Within
from weir.ratelimit.sites import SitesLocked, unknown_site
from weir.workers.cli import terminal
from weir.workers.fetches import strays

log = get_logger(__name__)

PATIENCE_S = 0.5  # seconds of waiting for the lock of sites; other transactions that ask for it then wait, too
MOST_TRIES = 10  # attempts of one call of `delete`
BATCH = 500  # sites that are deleted in one transaction
SITES_A_LOOK = 10_000
NOTES_A_LOOK = 2_000
FETCHES_A_LOOK = 5_000
FOLLOW_FOR_S = 1.0  # seconds after which a sweep leaves the rest to the next one
_looked_up_to = 0  # the id of a deleted site
WHY = {
    "in use": "it has fetches that have not ended. `manage.py fetches cancel` ends those that are queued.",
    "paused": "it is paused. `manage.py sites resume` ends the pause.",
    "backed off": "it is backed off. `manage.py sites resume` ends the back-off.",
    "split": "fetches that were queued there are following their hosts to other sites. Try again in a few seconds.",
    "recalled": "its settings were just changed. Try again in a second.",
    "locked": "other transactions are at work with it. Try again.",
}


class IdleSites(NamedTuple):
    """The result of a look at sites: those that may be idle."""

    idle: list[int]
    looked_at: int
    last: int | None  # the last site that was looked at


class NotedSites(NamedTuple):
    """How many notes of deleted sites were looked at, and the last of these sites."""

    looked_at: int
    last: int | None


DELETE_ROBOTS_FILES = Statement("delete_robots_files", commits=False)
IDLE_SITES = Statement("idle_sites", row=IdleSites, commits=True)
LATE_FETCHES = Statement("late_fetches", row=strays.PossibleStray, commits=True)
LATE_ROBOTS_FILES = Statement("late_robots_files", commits=True)
NOTED_SITES = Statement("noted_sites", row=NotedSites, commits=True)
SITES_WITH_FETCHES = Statement("sites_with_fetches", returns=int, commits=False)


def delete(host: str, *, within: Within = nullcontext) -> None:
    """Delete the site of this name, if nothing needs it any more. Its host gets a new site with its next fetch.

    Raises UnknownSite, and SiteBusy, whose text says why the site stays: something is active there, or some time has to
    pass after the last start before another site, with a clock of its own, may send requests to the host. `within` is
    entered and left in the transaction of the deletion, once for each attempt.
    """
    name = site_names.canonical(host)
    site = Site.objects.filter(name=name).values_list("pk", flat=True).first()
    if site is None:
        raise unknown_site(host)
    judged = _deleted_patiently(site, within)
    if judged is None:
        raise SiteBusy(f"{name} stays: {WHY['locked']}")
    if judged.busy is not None:
        raise SiteBusy(f"{name} stays: {WHY.get(judged.busy) or _clock(judged.free_in_s)}")


def delete_idle() -> int:
    """Delete the sites that only fetches have made and that were idle for WEIR_SITE_RETENTION; returns how many.

    Works in short batches. If other transactions are in the way, the rest is left to the next purge.
    """
    deleted, after, is_whole = 0, 0, False
    try:
        while not is_whole:
            place = {"after": after, "most": SITES_A_LOOK}
            [look] = IDLE_SITES(**place, idle_for=settings.WEIR_SITE_RETENTION)
            for start in range(0, len(look.idle), BATCH):
                rows = _delete(look.idle[start : start + BATCH], settings.WEIR_SITE_RETENTION)
                deleted += sum(row.busy is None for row in rows)
            after, is_whole = look.last or 0, look.looked_at < SITES_A_LOOK
    except SitesLocked:
        log.warning("idle_sites_wait_for_others")
    return deleted


def follow_late() -> int:
    """Move fetches that are queued at deleted sites to the sites of their hosts; returns how many were moved.

    Each call continues after the last note that this process looked at. Calls may run at the same time.
    """
    global _looked_up_to  # noqa: PLW0603  each process makes its own rounds
    moved, until = 0, time.monotonic() + FOLLOW_FOR_S
    while True:
        [notes] = NOTED_SITES(after=_looked_up_to, most=NOTES_A_LOOK)
        late = _late(_looked_up_to, notes.last) if notes.last is not None else []
        try:
            moved += strays.move(late)
        except SitesLocked:  # other transactions are in the way of new sites: the next sweep tries again
            log.warning("late_fetches_wait_for_sites")
            return moved
        if len(late) < FETCHES_A_LOOK:
            _looked_up_to = (notes.last or 0) if notes.looked_at == NOTES_A_LOOK else 0
            return moved
        if time.monotonic() >= until:
            return moved


def _late(after: int, last: int) -> list[strays.PossibleStray]:
    """Return at most one batch of the fetches queued at these deleted sites; delete the sites' robots.txt files."""
    place = {"after": after, "last": last}
    LATE_ROBOTS_FILES(**place)
    return LATE_FETCHES(**place, batch=FETCHES_A_LOOK)


def _deleted_patiently(site: int, within: Within) -> JudgedSite | None:
    """Try to delete the site; returns how it was judged, None if other transactions had locked it."""
    for _ in range(MOST_TRIES):
        try:
            if rows := _delete([site], within=within):
                return rows[0]
        except SitesLocked:
            pass
        time.sleep(PATIENCE_S)
    return None


def _delete(sites: Sequence[int], idle_for: float | None = None, *, within: Within = nullcontext) -> list[JudgedSite]:
    """Delete the sites that are not busy; returns how each was judged, but none that another transaction has locked.

    Raises SitesLocked if other transactions change or create sites for longer than PATIENCE_S.
    """
    try:
        with transaction.atomic(durable=True):
            held = deleting.hold(sites, PATIENCE_S)
            if not held:  # all are locked: `within` would wait for one of them
                return []
            with within():
                in_use = SITES_WITH_FETCHES(sites=[row.id for row in held])
                judged = deleting.delete(held, in_use, idle_for)
                DELETE_ROBOTS_FILES(sites=[row.id for row in judged if row.busy is None])
            return judged
    except OperationalError as error:
        if isinstance(error.__cause__, LockNotAvailable):
            raise SitesLocked from error
        raise


def _clock(seconds: float) -> str:
    return (
        f"its last start may be too recent for the site that the host gets next. "
        f"It can be deleted in {terminal.span(seconds)}."
    )
