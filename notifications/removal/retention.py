"""Retention: read notifications are kept for a time that the settings name; unread ones are not deleted here."""

import math
from collections.abc import Mapping

from weir.conf import settings
from weir.postgres import batches

BATCH = 1_000
DAY_S = 86_400.0
KEPT_REPAIRS = 1_000


def purge(within_s: float = math.inf) -> int:
    """Delete notifications that were read longer ago than WEIR_NOTIFICATION_RETENTION; returns how many.

    So are the notes of epochs that were flushed a day ago, except the one of the highest epoch, and those of all
    repairs but the newest 1,000. No unread number changes, as only read rows are deleted. Batches are short, and skip
    rows that others hold locked; what takes longer than `within_s`, each, is left to the next call. The process may be
    killed anywhere.
    """
    _delete("retention/purge_epochs", {"older_than": DAY_S}, within_s)
    _delete("retention/purge_repairs", {"kept": KEPT_REPAIRS}, within_s)
    return _delete("retention/purge", {"older_than": settings.WEIR_NOTIFICATION_RETENTION}, within_s)


def _delete(statement: str, parameters: Mapping[str, object], within_s: float) -> int:
    return batches.delete("weir.notifications", statement, parameters, batch=BATCH, within_s=within_s)
