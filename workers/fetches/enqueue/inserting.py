"""Inserting: the rows of the fetches that a call asks for, in the caller's transaction."""

import json
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple, cast
from uuid import UUID

from django.db import DEFAULT_DB_ALIAS, transaction

from weir.postgres.statements import Statement
from weir.workers.fetches.enqueue.given import GivenRequest
from weir.workers.fetches.models import Fetch
from weir.workers.fetches.on_done.calls import Ended
from weir.workers.fetches.requested import RequestedFetches
from weir.workers.fetches.robots.rules import origin_of

# Rows of 3 kB that a call keeps; of more fetches, only ids. Without `dedupe`, also the rows of one INSERT.
KEPT: Final = 5_000


class WantedFetch(NamedTuple):
    """What one text asks for: the columns that may differ between the fetches of a call."""

    url: str
    hop_url: str
    site_id: int | None
    error: str
    dedupe_key: UUID | None
    share: str | None
    reference: str | None


class InsertedFetch(NamedTuple):
    """What the database decided about a fetch; all None if none was inserted."""

    id: int | None
    state: str | None
    created_at: datetime | None
    not_before: datetime | None
    finished_at: datetime | None
    idempotency_key: UUID | None


ENQUEUE = Statement("enqueue", row=InsertedFetch, commits=False)
ENQUEUE_BODIES = Statement("enqueue_bodies", commits=False)


class New:
    """What workers are told, after the commit, about the new fetches of a call."""

    def __init__(self) -> None:
        self.sites: dict[str, int] = {}  # by origin
        self.failed: list[Ended] = []  # fetches that name a task

    def note(self, given: WantedFetch, row: InsertedFetch, common: Mapping[str, Any]) -> int:
        """Record a new fetch; returns its id."""
        fetch_id = cast("int", row.id)
        if given.site_id is not None:
            self.sites[origin_of(given.hop_url)] = given.site_id
        elif common["on_done"]:
            self.failed.append(Ended(fetch_id, common["on_done"], common["correlation_id"]))
        return fetch_id

    def add(self, given: WantedFetch, row: InsertedFetch, common: Mapping[str, Any]) -> Fetch:
        """Record a new fetch; returns it as if read from the database: its times are from the database's clock."""
        self.note(given, row, common)
        fetch = Fetch(**given._asdict(), **common, **row._asdict())
        fetch._state.adding, fetch._state.db = False, DEFAULT_DB_ALIAS  # noqa: SLF001  Django's documented attribute
        return fetch


def _insert(
    wanted: Sequence[WantedFetch], not_before: datetime | None, common: dict[str, Any], request: GivenRequest
) -> Iterator[tuple[WantedFetch, InsertedFetch]]:
    """Insert the fetches; yields each with what the database decided."""
    parameters = {
        "urls": [one.url for one in wanted],
        "hop_urls": [one.hop_url for one in wanted],
        "sites": [one.site_id for one in wanted],
        "errors": [one.error for one in wanted],
        "dedupe_keys": [one.dedupe_key for one in wanted],
        "shares": [one.share for one in wanted],
        "references": [one.reference for one in wanted],
        "not_before": not_before,
        "needs_key": request.needs_key,
        "effect_id": None,
        **common,
        "request_headers": common["request_headers"] and json.dumps(common["request_headers"]),
    }
    if not request.body:
        return zip(wanted, ENQUEUE(**parameters), strict=True)
    with transaction.atomic():  # no worker may see a fetch without its body
        rows = ENQUEUE(**parameters)
        ENQUEUE_BODIES(fetches=[row.id for row in rows if row.id is not None], body=request.body)
    return zip(wanted, rows, strict=True)


def queue_all(
    wanted: Sequence[WantedFetch], not_before: datetime | None, common: dict[str, Any], request: GivenRequest
) -> tuple[RequestedFetches, New]:
    """Insert a fetch for each wanted one; returns the fetches, and the new ones, which are all of them."""
    new = New()
    if len(wanted) <= KEPT:
        rows = [new.add(given, row, common) for given, row in _insert(wanted, not_before, common, request)]
        return RequestedFetches.keeping(rows), new
    ids = array("q")
    with transaction.atomic():
        for start in range(0, len(wanted), KEPT):
            inserted = list(_insert(wanted[start : start + KEPT], not_before, common, request))
            ids.extend(new.note(given, row, common) for given, row in inserted)
    return RequestedFetches(ids), new


def queue_once(
    wanted: Sequence[WantedFetch], not_before: datetime | None, common: dict[str, Any], request: GivenRequest
) -> tuple[RequestedFetches, New]:
    """Insert the fetches whose key no unfinished fetch has; returns the fetch of each wanted one, and the new ones.

    1. Insert one fetch for each key, in the order of the keys. If an unfinished fetch has the key, none is inserted.
    2. Look up those unfinished fetches, in a new snapshot: they may have been committed while step 1 waited for them.
    3. If a fetch ended between steps 1 and 2, it is not found, and its key is free again. Then roll back and start
       again: a transaction that holds keys and asks for a lower one could deadlock. In each round another fetch has
       ended, so the number of rounds is limited.
    """
    firsts: dict[object, int] = {}
    places = array("q", (firsts.setdefault(one.dedupe_key or place, place) for place, one in enumerate(wanted)))
    distinct = [wanted[place] for place in firsts.values()]
    is_kept = len(wanted) <= KEPT
    while True:
        new = New()
        with transaction.atomic():
            add: Callable[..., Fetch | int] = new.add if is_kept else new.note
            inserted = _insert(distinct, not_before, common, request)
            queued = [None if row.id is None else add(given, row, common) for given, row in inserted]
            met = [given.dedupe_key for given, fetch in zip(distinct, queued, strict=True) if fetch is None]
            unfinished = Fetch.objects.unfinished().filter(dedupe_key__in=met)
            found: dict[Any, Fetch | int] = (
                {fetch.dedupe_key: fetch for fetch in unfinished}
                if is_kept
                else dict(unfinished.values_list("dedupe_key", "pk"))
            )
            if len(found) == len(met):
                break
            transaction.set_rollback(True)
    theirs = (fetch or found[given.dedupe_key] for given, fetch in zip(distinct, queued, strict=True))
    of_place = dict(zip(firsts.values(), theirs, strict=True))
    fetches: list[Any] = [of_place[place] for place in places]
    return RequestedFetches.keeping(fetches) if is_kept else RequestedFetches(fetches), new
