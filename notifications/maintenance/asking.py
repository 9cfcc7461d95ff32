"""Answers beat's question whether a tick of unread numbers would find anything to do (`weir.workers.beat.work`)."""

from typing import Final

from weir.notifications import counters
from weir.notifications.inbox.read_marks import SETTLE_HAS_WORK
from weir.notifications.removal.expiry import EXPIRE_HAS_WORK
from weir.workers import task_names
from weir.workers.beat import work

# If no flush runs for ten seconds, each poll of an open page asks PostgreSQL (`weir.notifications.watching`).
FLUSHED_EVERY_S: Final = 6.0


def connect() -> None:
    """Make beat ask before it sends these ticks."""
    work.ask_before(task_names.FLUSH_UNREAD, _has_deltas, sent_every_s=FLUSHED_EVERY_S)
    work.ask_before(task_names.SETTLE_UNREAD, work.answer_of(SETTLE_HAS_WORK))
    work.ask_before(task_names.EXPIRE_NOTIFICATIONS, work.answer_of(EXPIRE_HAS_WORK))


def _has_deltas() -> bool:
    try:
        return counters.waiting() > 0
    except counters.RedisUnreachable:
        return True  # the flush logs that Redis cannot be reached
