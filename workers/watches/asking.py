"""Asking: queues a fetch for each watch that is due, in bulk.

1. Lock a batch of due watches (sql/due.sql).
2. Queue a fetch for each, unless one is unfinished: the fetches of a watch have one dedupe key, of which PostgreSQL
   allows one unfinished fetch (fetches/enqueue/watched.py). So a slow site gets no second fetch of a watch.
3. Let each be due again a period from now (sql/put_off.sql), whether one was queued or not. A watch that was due many
   times, as in an outage, is asked for once.

The steps are one transaction. If it is rolled back, the watches are still due.
"""

import time
from typing import Final, NamedTuple
from uuid import UUID

from django.db import transaction
from django.db.models.functions import Now

from weir.logs.loggers import get_logger
from weir.postgres.statements import Statement
from weir.postgres.timeline import gate
from weir.ratelimit.sites import SitesLocked
from weir.workers.fetches.enqueue import watched
from weir.workers.fetches.enqueue.watched import WatchedUrl
from weir.workers.watches.models import Watch

log = get_logger(__name__)

BATCH: Final = 1_000
WITHIN_S: Final = 5.0  # seconds after which a tick leaves the rest to the next one


class DueWatch(NamedTuple):
    """A watch whose page is to be asked for, locked."""

    id: int
    url: str
    dedupe_key: UUID
    priority: int
    revalidate: bool
    request_headers: str | None  # as JSON
    share: str | None


DUE = Statement("due", row=DueWatch, commits=False)
PUT_OFF = Statement("put_off", commits=False)


def ask_due() -> int:
    """Do the three steps of the module's head, batch by batch; returns the number of fetches that were queued.

    Safe to run twice or together.
    """
    queued, last, until = 0, BATCH, time.monotonic() + WITHIN_S
    while last == BATCH and time.monotonic() < until:
        gate.require()  # a clock that was stepped would make all watches due at once
        try:
            with transaction.atomic(durable=True):
                due = DUE(batch=BATCH)
                queued += _ask(due) if due else 0
        except SitesLocked:
            log.warning("watches_wait_for_sites")
            return queued
        last = len(due)
    return queued


def let_all_be_due() -> None:
    """Let all watches but paused ones be due now: for tests of projects, which wait for no period."""
    Watch.objects.filter(next_at__isnull=False).update(next_at=Now())


def _ask(due: list[DueWatch]) -> int:
    ids = watched.ask(
        [
            WatchedUrl(
                url=watch.url,
                dedupe_key=watch.dedupe_key,
                priority=watch.priority,
                revalidate=watch.revalidate,
                request_headers=watch.request_headers,
                share=watch.share,
            )
            for watch in due
        ]
    )
    PUT_OFF(watches=[watch.id for watch in due], fetches=ids)
    return sum(fetch is not None for fetch in ids)
