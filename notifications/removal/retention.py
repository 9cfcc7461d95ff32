"""Retention: read notifications are kept for a time that the settings name; unread ones are not deleted here."""

import math
from functools import partial

from weir.conf import settings
from weir.postgres import batches
from weir.postgres.statements import Statement

PURGE_EPOCHS = Statement("purge_epochs", returns=int, commits=True)
PURGE_NOTIFICATIONS = Statement("purge_notifications", returns=int, commits=True)
PURGE_REPAIRS = Statement("purge_repairs", returns=int, commits=True)

BATCH = 1_000
DAY_S = 86_400.0
KEPT_REPAIRS = 1_000


def purge(within_s: float = math.inf) -> int:
    """Delete notifications that were read longer ago than WEIR_NOTIFICATION_RETENTION; returns how many.

    Also deletes the notes of epochs that were flushed a day ago, except the note of the highest epoch, and of all
    repairs but the newest 1,000. No unread number changes, because only read rows are deleted. Batches are short, and
    skip rows that others hold locked. What each of the three cannot delete in `within_s` is left to the next call. The
    process may be killed at any point.
    """
    delete = partial(batches.delete, batch=BATCH, within_s=within_s)
    delete(PURGE_EPOCHS, older_than=DAY_S)
    delete(PURGE_REPAIRS, kept=KEPT_REPAIRS)
    return delete(PURGE_NOTIFICATIONS, older_than=settings.WEIR_NOTIFICATION_RETENTION)
