"""Retention: read notifications are deleted after the time that a setting names. Unread ones are not deleted here."""

import math
from collections.abc import Callable, Collection
from functools import partial

from weir.conf import settings
from weir.postgres import batches
from weir.postgres.statements import Statement, bigints

PURGE_EPOCHS = Statement("purge_epochs", returns=int, commits=True)
PURGE_NOTIFICATIONS = Statement("purge_notifications", returns=int, commits=True)
PURGE_REPAIRS = Statement("purge_repairs", returns=int, commits=True)

BATCH = 1_000
DAY_S = 86_400.0
KEPT_REPAIRS = 1_000

# Returns the ids of e-mails that may have to tell again what they have told.
Undecided = Callable[[], Collection[int]]
_undecided: list[Undecided] = []


def keep_told_by(undecided: Undecided) -> None:
    """Keep what these e-mails have told: it is unread again if they were not accepted."""
    _undecided[:] = [undecided]


def purge(within_s: float = math.inf) -> int:
    """Delete notifications that were read longer ago than WEIR_NOTIFICATION_RETENTION; returns how many.

    Those that an e-mail has told stay until it is known whether it was accepted.

    Also deletes rows of two other tables: FlushedEpoch, of epochs that were flushed more than a day ago, except the
    highest epoch; and Repair, except the newest 1,000. No unread number changes, because only read notifications are
    deleted. Batches are short, and skip notifications that other transactions have locked. Each of the three deletions
    leaves to the next call what it cannot delete in `within_s` seconds. The process may be killed at any point.
    """
    delete = partial(batches.delete, batch=BATCH, within_s=within_s)
    delete(PURGE_EPOCHS, older_than=DAY_S)
    delete(PURGE_REPAIRS, kept=KEPT_REPAIRS)
    kept = bigints(_undecided[0]() if _undecided else [])
    return delete(PURGE_NOTIFICATIONS, older_than=settings.WEIR_NOTIFICATION_RETENTION, kept=kept)
