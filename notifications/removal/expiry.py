"""Expiry: a notification with an `expires_at` is deleted soon after it, and its user's number falls with it."""

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
    """Delete notifications whose `expires_at` is past, and count that; returns how many.

    Batches are short, and skip rows that others hold locked. No other batch begins after `within_s`: the rest is left
    to the next call. May be killed at any point, and run by several processes at the same time.
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
