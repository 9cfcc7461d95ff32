"""Read marks: one row marks all notifications of a user as read immediately; their own `read_at` is set later.

`mark_all` takes the same time for ten notifications and for ten million. The notifications that the mark covers
(`ReadMark`) count as read from then on. Readers count the rows that the mark does not cover, which are few. `settle`
goes through the covered rows in short transactions, sets their `read_at`, and sends the deltas as for any other change.
So the stored number and the deltas always add up to the count of rows without `read_at`, which is the unread number
again when the mark is removed.
"""

import math
import time
from typing import NamedTuple

from django.db import DEFAULT_DB_ALIAS, transaction

from weir.notifications import changes, watching
from weir.notifications.changes import LOCK_READ_MARKS
from weir.notifications.models import ReadMark
from weir.notifications.user_keys import UserKey
from weir.postgres.statements import Statement
from weir.postgres.timeline import gate

BATCH = 5_000  # rows of one short transaction
MARKS_AT_ONCE = 100
RENEWED_AFTER_S = 5.0  # how often a recovery renews its lease, which lasts half a minute


class OldMark(NamedTuple):
    """A read mark: its user, and the transaction that wrote it."""

    user_id: UserKey
    marked_by: str


class SettledRows(NamedTuple):
    """How many rows were changed (by adopt_marked: looked at), and the id of the last one; None if there were none."""

    changed: int
    last_id: int | None


ADOPT_MARKED = Statement("adopt_marked", row=SettledRows, commits=True)
OLDEST_READ_MARKS = Statement("oldest_read_marks", row=OldMark, commits=False)
REMOVE_READ_MARKS = Statement("remove_read_marks", commits=False)
SETTLE_HAS_WORK = Statement("settle_has_work", returns=bool, commits=False, prepare=True)
SETTLE_MARKED = Statement("settle_marked", row=SettledRows, commits=False)
SET_READ_MARK = Statement("set_read_mark", returns=int, commits=False)
UNCOVERED = Statement("uncovered", returns=int, commits=False)


def mark_all(user_id: UserKey) -> None:
    """Mark as read all notifications of the user that this transaction sees, and no others."""
    with transaction.atomic():
        LOCK_READ_MARKS(user=user_id)
        [changed] = SET_READ_MARK(user=user_id)
        changes.record({user_id: -changed}, using=DEFAULT_DB_ALIAS)
        transaction.on_commit(watching.changed)


def newest_uncovered(user_id: UserKey, before: int | None, limit: int) -> list[int]:
    """Return the ids of the newest unread notifications of a user with a mark, before this id."""
    return UNCOVERED(user=user_id, before=before, limit=limit)


def settle(within_s: float = math.inf) -> int:
    """Set `read_at` of the rows that marks cover, the oldest mark first; return how many rows were changed.

    No other batch begins after `within_s` seconds; the next call goes on. May be killed at any point, and may run twice
    at the same time. Raises database errors.
    """
    settled, give_up_at = 0, time.monotonic() + within_s
    for mark in OLDEST_READ_MARKS(most=MARKS_AT_ONCE):
        settled += _settle(mark, give_up_at)
        if time.monotonic() >= give_up_at:
            break
    return settled


def adopt(below: int) -> None:
    """Adopt all marks, and all notifications with ids below this one, as if this cluster had written them.

    This is for a copy of a database in another cluster, which has transaction ids of its own. Afterwards, the rows that
    the marks covered have a `read_at`, and the marks are gone. Works in short transactions, which may be repeated. Is a
    part of a recovery, and renews the recovery's lease. Raises database errors.
    """
    _settle_all()
    after: int | None = 0
    while after is not None:
        parameters = {"after": after, "below": below, "batch": BATCH}
        [rows] = ADOPT_MARKED(**parameters)
        gate.renew()
        after = rows.last_id


def _settle_all() -> None:
    """Settle until a round changes no row and removes no mark. Rows that other transactions have locked may be left."""
    marks = ReadMark.objects.count()
    while True:
        settled, left = settle(RENEWED_AFTER_S), ReadMark.objects.count()
        gate.renew()
        if not settled and left >= marks:
            return
        marks = left


def _settle(mark: OldMark, give_up_at: float) -> int:
    settled, after = 0, 0
    while time.monotonic() < give_up_at:
        with transaction.atomic(durable=True):
            parameters = {"user": mark.user_id, "after": after, "batch": BATCH}
            [rows] = SETTLE_MARKED(**parameters)
            changes.record({mark.user_id: -rows.changed}, using=DEFAULT_DB_ALIAS)
        if rows.last_id is None:
            REMOVE_READ_MARKS(user=mark.user_id, marked_by=mark.marked_by)
            break
        settled, after = settled + rows.changed, rows.last_id
    return settled
