"""Fetches of watches: how the room above asks for them in bulk, and takes their ends.

A watch's fetch names Weir's own task KEEP_WATCH as its `on_done`. Nothing calls that task with a fetch: the tick takes
the ends in bulk (`take_ended`), and settles each (`settle`). Where the page has changed, it puts the user's task in the
place of KEEP_WATCH. From then on the call is one like any other of `on_done`: made at least once.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple
from uuid import UUID

from django.db import transaction

from weir.postgres.statements import Statement
from weir.ratelimit.sites import begin_turns, each_site_of
from weir.workers import task_names
from weir.workers.fetches.addresses import allowed_by_settings
from weir.workers.fetches.enqueue import parsed, share_at, tell_workers
from weir.workers.fetches.enqueue.inserting import New
from weir.workers.fetches.models import Fetch
from weir.workers.fetches.on_done.calls import Ended
from weir.workers.fetches.robots.rules import origin_of

MAX_ATTEMPTS: Final = 5


class WatchedUrl(NamedTuple):
    """What a watch asks for: its URL as given, and how."""

    url: str
    dedupe_key: UUID
    priority: int
    revalidate: bool
    request_headers: str | None  # as JSON
    share: str | None


class LookedAt(NamedTuple):
    """One end that was looked at: its fetch, if that was taken."""

    fetch_id: int | None


class TakenEnds(NamedTuple):
    """Fetches of watches that have ended, and that the caller's transaction has taken."""

    fetch_ids: list[int]
    looked_at: int  # at how many ends: fewer than was allowed, if there are no more


ENQUEUE_EACH = Statement("enqueue_each", returns=int, commits=False)
TAKE_WATCHED = Statement("take_watched", row=LookedAt, commits=False)
SETTLE_WATCHED = Statement("settle_watched", row=Ended, commits=False)


def ask(watched: Sequence[WatchedUrl]) -> list[int | None]:
    """Queue a fetch for each URL, in the caller's transaction; returns its id, None where one is unfinished already.

    A URL that Weir no longer fetches, because the settings forbid it, gets a fetch that has failed and says why. Raises
    SitesLocked if other transactions block the site of a new host for ten seconds.
    """
    hosts: dict[str, str] = {}
    allowed = allowed_by_settings()
    read = [parsed(each.url, allowed, hosts) for each in watched]
    sites = each_site_of(hosts.keys())
    begin_turns(sites[host] for each, (url, host, _) in zip(watched, read, strict=True) if url and each.share)
    ids: list[Any] = ENQUEUE_EACH(
        urls=[each.url for each in watched],
        hop_urls=[url for url, _, _ in read],
        sites=[sites[host].id if url else None for url, host, _ in read],
        errors=[error for _, _, error in read],
        dedupe_keys=[each.dedupe_key for each in watched],
        priorities=[each.priority for each in watched],
        revalidates=[each.revalidate for each in watched],
        headers=[each.request_headers for each in watched],
        shares=[
            share_at(sites[host], each.share) if url else each.share
            for each, (url, host, _) in zip(watched, read, strict=True)
        ],
        max_attempts=MAX_ATTEMPTS,
        on_done=task_names.KEEP_WATCH,
    )
    new = New()
    new.sites = {
        origin_of(url): sites[host].id
        for fetch, (url, host, _) in zip(ids, read, strict=True)
        if url and fetch is not None
    }
    transaction.on_commit(partial(tell_workers, new), robust=True)
    return ids


def take_ended(look: int) -> TakenEnds:
    """Lock fetches of watches that have ended and were not judged, in the caller's transaction: of the first `look`.

    Of one watch, at most one is taken, and none that another transaction has taken.
    """
    found = TAKE_WATCHED(on_done=task_names.KEEP_WATCH, look=look)
    return TakenEnds([end.fetch_id for end in found if end.fetch_id is not None], len(found))


def settle(tasks: Mapping[int, str]) -> list[Ended]:
    """Settle fetches that were taken: each names its task as `on_done` now; an empty text stands for none.

    Returns the calls that the caller makes by `call_on_done` after its commit. Sweep makes those that are lost.
    """
    return SETTLE_WATCHED(fetches=list(tasks), tasks=list(tasks.values()))


def take_back(fetch_id: int) -> None:
    """Let a fetch that was settled without a task be taken again."""
    Fetch.objects.filter(pk=fetch_id, on_done=task_names.KEEP_WATCH).update(on_done_called_at=None)
