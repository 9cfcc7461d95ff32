"""Cancelling: web code or an operator takes back a fetch that has not started, or all of a batch.

from weir import cancel_batch, cancel_fetch
cancel_fetch(fetch.pk)
cancel_batch("import-7")
"""

import sys
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from django.db import transaction

from weir.postgres import own_commits
from weir.postgres.statements import Statement
from weir.ratelimit.pacing import CONFIRMED_FOR_S
from weir.workers.fetches.batches.counts import counts_of, id_of
from weir.workers.fetches.models import HELD, Fetch
from weir.workers.fetches.on_done.calls import COLUMNS, Ended, call_on_done

AT_ONCE: Final = 1_000  # fetches of one transaction

CANCEL = Statement("cancel", commits=False)
CANCEL_QUEUED = Statement("cancel_queued", row=Ended, commits=False)
LOCK_UNFINISHED = Statement("lock_unfinished", commits=False)


def cancel(fetch_id: int, *, note: Callable[[], object] | None = None) -> bool:
    """Cancel a fetch; its slot goes to the next fetch of its site. `note` is called in the transaction that cancels it.

    Returns False when it is too late: in the last half second before the start (CONFIRMED_FOR_S), and afterwards.
    Commits by itself; raises TransactionManagementError inside a transaction.
    """
    own_commits.refuse_transaction("cancel_fetch")
    with transaction.atomic(durable=True):
        is_cancelled = bool(LOCK_UNFINISHED(fetch=fetch_id) and CANCEL(fetch=fetch_id, confirmed_for=CONFIRMED_FOR_S))
        if is_cancelled and note:
            note()
    if not is_cancelled:
        return False
    call_on_done(map(Ended._make, Fetch.objects.filter(pk=fetch_id).exclude(on_done="").values_list(*COLUMNS)))
    return True


class CancelledBatch(NamedTuple):
    """How many were cancelled, and how many are unfinished: they have started."""

    cancelled: int
    unfinished: int


def cancel_batch(name: str, *, limit: int | None = None, note: Callable[[int], object] | None = None) -> CancelledBatch:
    """Cancel what has not started of a batch.

    At most `limit` fetches, queued ones first, in short transactions. What is in flight ends; if it is to be tried
    again, it is queued, and another call cancels it. Each fetch calls its `on_done`, and the batch its task. `note` is
    called in each transaction, with how many it has cancelled. Commits by itself; raises UnknownBatch, and
    TransactionManagementError inside a transaction.
    """
    own_commits.refuse_transaction("cancel_batch")
    batch, most = id_of(name), sys.maxsize if limit is None else limit
    cancelled, last = 0, 1
    while last:
        last = _cancel_queued(batch, most - cancelled, note)
        last += _cancel_held(batch, most - cancelled - last, note)
        cancelled += last
    return CancelledBatch(cancelled, counts_of(batch).unfinished)


def _cancel_queued(batch: int, most: int, note: Callable[[int], object] | None) -> int:
    """Cancel queued fetches; returns how many."""
    cancelled, last = 0, AT_ONCE
    while last == AT_ONCE and cancelled < most:
        with transaction.atomic(durable=True):
            ended = CANCEL_QUEUED(batch=batch, most=min(AT_ONCE, most - cancelled))
            if ended and note:
                note(len(ended))
        call_on_done(each for each in ended if each.on_done)
        last = len(ended)
        cancelled += last
    return cancelled


def _cancel_held(batch: int, most: int, note: Callable[[int], object] | None) -> int:
    """Cancel reserved fetches, and those that a fetcher has claimed but not started; returns how many."""
    held = Fetch.objects.filter(batch=batch, state__in=HELD).order_by("pk").values_list("pk", flat=True)
    return sum(cancel(fetch_id, note=partial(note, 1) if note else None) for fetch_id in list(held[: max(0, most)]))
