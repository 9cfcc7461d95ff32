"""Strays: fetches at a site to which their host no longer belongs, because the site was split (ratelimit/sites.py).

A split recalls the reserved slots. This module moves the fetches:

1. Sweep goes through the queue of a site that was split, in short batches, for about a second in each sweep. It moves
   the strays to the sites to which their hosts belong now (`follow_all`), and their robots.txt files, with the
   Crawl-delays.
2. A fetch may become a stray later than that: its site was looked up before the split, and the fetch was committed
   after it; or the fetch was running, and comes back for a retry. So after dispatch has reserved at a site that was
   ever split, it looks for strays before it sends a message (`take_out`).

Step 2 leaves no gap. The slot was committed before this look. If the split was committed before the look, the look sees
it. If it is committed later, it recalls the slot, because a site is split and reserved under the lock of its row (site
first, docs/explanation/sql.md).
"""

import time
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from django.db.models.functions import Now

from weir.logs.loggers import get_logger
from weir.postgres.statements import Statement
from weir.ratelimit.models import Site
from weir.ratelimit.pacing import CONFIRMED_FOR_S
from weir.ratelimit.sites import SitesLocked, end_split, sites_of
from weir.workers.fetches import backlog
from weir.workers.fetches.models import HELD, Fetch
from weir.workers.fetches.robots import files as robots_files
from weir.workers.fetches.targets import parts_of

log = get_logger(__name__)

BATCH = 5_000
PATIENCE = 0.5  # seconds that dispatch and sweep wait for other transactions if a host needs a new site
HIGHEST = 32_768  # above all priorities
FOLLOW_FOR_S = 1.0  # seconds after which a sweep leaves the rest of a queue to the next one: it delays dispatch
Place = dict[str, object]
FIRST_PLACE: Place = {"priority": HIGHEST, "not_before": None, "after": 0}
_followed: dict[int, datetime] = {}  # by site: the split whose strays this process has moved
_places: dict[tuple[int, datetime], Place] = {}  # by site and split: how far this process has gone through the queue


class PossibleStray(NamedTuple):
    """A fetch that is queued or reserved at a site to which its host may no longer belong."""

    id: int
    slot_id: int | None
    site_id: int
    url: str
    priority: int
    not_before: datetime


QUEUE = Statement("queue", row=PossibleStray, commits=True)
RESERVED = Statement("reserved", row=PossibleStray, commits=True)
STRAYS = Statement("strays", returns=int, commits=True)


def follow_all(split_before_s: float = CONFIRMED_FOR_S) -> int:
    """Move the strays of all sites that were split to the sites of their hosts; returns how many were moved.

    A site that was split less than `split_before_s` seconds ago is left out: its clock may still be set back, and with
    it the clocks of the sites that are created for its hosts. A site is finished when no fetch is held any more that
    was reserved before the split. Calls may be repeated, run at the same time, and be killed anywhere.
    """
    moved = 0
    until = time.monotonic() + FOLLOW_FOR_S
    marked = Site.objects.filter(has_strays=True, recalled_at__lte=Now() - timedelta(seconds=split_before_s))
    for site in marked.order_by("pk").only("split_until", "recalled_slot"):
        is_held = Fetch.objects.filter(site=site, state__in=HELD, slot_id__lte=site.recalled_slot).exists()
        if site.split_until is not None and (not is_held or _followed.get(site.pk) != site.split_until):
            try:
                followed, is_whole = _follow(site.pk, site.split_until, until)
            except SitesLocked:  # other transactions are in the way of new sites: the next sweep tries again
                log.warning("strays_wait_for_sites", site=site.pk)
                continue
            moved += followed
            if not is_whole:
                break
            _followed[site.pk] = site.split_until
        if not is_held and end_split(site):
            _followed.pop(site.pk, None)
    return moved


def take_out(slot_ids: Iterable[int]) -> int:
    """Move the strays among the fetches that were just given these slots to the sites of their hosts; returns how many.

    The strays' slots are given back. For dispatch, before any fetcher knows of the slots.
    """
    return move(RESERVED(slots=list(slot_ids)))


def _follow(site_id: int, split_until: datetime, until: float) -> tuple[int, bool]:
    """Go through the queue of the site, in its order; `take_out` finds strays that are queued before this place later.

    Returns how many fetches were moved, and whether the end of the queue was reached. If not, the next call goes on
    where this one ended.
    """
    robots_files.follow(site_id, PATIENCE)
    moved = 0
    place = _places.pop((site_id, split_until), FIRST_PLACE)
    while True:
        rows = QUEUE(site=site_id, **place, most=BATCH)
        moved += move(rows)
        if len(rows) < BATCH:
            return moved, True
        last = rows[-1]
        place = {"priority": last.priority, "not_before": last.not_before, "after": last.id}
        if time.monotonic() >= until:
            _places[site_id, split_until] = place
            return moved, False


def move(fetches: Sequence[PossibleStray]) -> int:
    """Queue those of the fetches that are strays at the sites of their hosts, in their old places; returns how many."""
    if not fetches:
        return 0
    hosts = [parts_of(fetch.url).authority for fetch in fetches]
    sites = sites_of(set(hosts), PATIENCE)
    strays = [
        (fetch.id, fetch.slot_id, fetch.site_id, sites[host])
        for fetch, host in zip(fetches, hosts, strict=True)
        if sites[host] != fetch.site_id
    ]
    if not strays:
        return 0
    names = ("ids", "slots", "losers", "gainers")
    followed_to = STRAYS(**{name: [stray[i] for stray in strays] for i, name in enumerate(names)})
    backlog.activate(followed_to)
    return len(followed_to)
