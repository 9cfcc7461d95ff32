"""Expiry: a notification is deleted soon after its `expires_at`; if it was unread, its user's number changes, too."""

import math
import time
from typing import NamedTuple

from django.db import DEFAULT_DB_ALIAS, transaction

from weir.notifications import changes
from weir.notifications.user_keys import UserKey
from weir.postgres.statements import Statement

BATCH = 1_000  # rows in a transaction


class ExpiredRows(NamedTuple):
    """How many rows of a user were deleted, and how many of them were unread."""

    user_id: UserKey
    deleted: int
    unread: int


EXPIRE = Statement("expire", row=ExpiredRows, commits=False)
EXPIRE_HAS_WORK = Statement("expire_has_work", returns=bool, commits=False, prepare=True)


def delete_expired(within_s: float = math.inf) -> int:
    """Delete notifications whose `expires_at` is past, and change unread numbers; returns how many were deleted.

    Batches are short, and skip rows that other transactions have locked. No other batch begins after `within_s`
    seconds: the next call deletes the rest. May be killed at any point, and several processes may run this at the same
    time.
    """
    deleted, give_up_at = 0, time.monotonic() + within_s
    while True:
        batch = _delete_batch()
        deleted += batch
        if batch < BATCH or time.monotonic() >= give_up_at:
            return deleted


def _delete_batch() -> int:
    with transaction.atomic(durable=True):
        rows = EXPIRE(batch=BATCH)
        changes.record({row.user_id: -row.unread for row in rows}, using=DEFAULT_DB_ALIAS)
    return sum(row.deleted for row in rows)
