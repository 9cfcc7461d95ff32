"""The cap: if a user has more unread notifications than WEIR_UNREAD_CAP, the oldest unread ones are deleted.

A flush knows the numbers that it has just written, and notes the users whose number is above the cap (`Excess`). A note
stays until its user has no more than the cap, even if processes are killed. Only the rows decide what is deleted.
"""

import math
import time

from django.db import DEFAULT_DB_ALIAS, transaction

from weir.conf import settings
from weir.notifications import changes
from weir.notifications.user_keys import UserKey
from weir.postgres.statements import Statement

BATCH = 1_000  # rows in a transaction
MOST_NOTES = 1_000  # notes that are looked at together


NOTED_FOR_CAP = Statement("noted_for_cap", returns=UserKey, commits=False)
TRIM = Statement("trim", returns=int, commits=False)


def trim(within_s: float = math.inf) -> int:
    """Delete the oldest unread notifications of users who have more than WEIR_UNREAD_CAP; returns how many.

    Batches are short, and skip rows that other transactions have locked. No other batch begins after `within_s`
    seconds. The next call deletes the rest. May be killed at any point, and several processes may run this at the same
    time.
    """
    deleted, give_up_at = 0, time.monotonic() + within_s
    for user_id in NOTED_FOR_CAP(most=MOST_NOTES):
        while time.monotonic() < give_up_at:
            of_batch = _trim_batch(user_id)
            deleted += of_batch
            if not of_batch:  # the user has no more than the cap, or other transactions have locked all these rows
                break
    return deleted


def _trim_batch(user_id: UserKey) -> int:
    parameters = {"user": user_id, "cap": settings.WEIR_UNREAD_CAP, "batch": BATCH}
    with transaction.atomic(durable=True):
        [deleted] = TRIM(**parameters)
        changes.record({user_id: -deleted}, using=DEFAULT_DB_ALIAS)
    return deleted
