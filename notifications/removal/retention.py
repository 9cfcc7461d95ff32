"""Retention: read notifications are deleted after the time that a setting names. Unread ones are not deleted here."""

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

    Also deletes rows of two other tables: FlushedEpoch, of epochs that were flushed more than a day ago, except the
    highest epoch; and Repair, except the newest 1,000. No unread number changes, because only read notifications are
    deleted. Batches are short, and skip notifications that other transactions have locked. Each of the three deletions
    leaves to the next call what it cannot delete in `within_s` seconds. The process may be killed at any point.
    """
    delete = partial(batches.delete, batch=BATCH, within_s=within_s)
    delete(PURGE_EPOCHS, older_than=DAY_S)
    delete(PURGE_REPAIRS, kept=KEPT_REPAIRS)
    return delete(PURGE_NOTIFICATIONS, older_than=settings.WEIR_NOTIFICATION_RETENTION)
