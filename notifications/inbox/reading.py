"""Reads what a user's inbox shows: how many notifications are unread, and a page of them."""

from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

from django.db import DEFAULT_DB_ALIAS

from weir.notifications import changes, counters, user_keys
from weir.notifications.inbox import read_marks
from weir.notifications.models import Notification
from weir.notifications.user_keys import UserKey
from weir.postgres.statements import Statement
from weir.redis_link import outages

MOST_COUNTED = 10_000  # rows of a user that are counted, if rows have to be counted
TRIES = 3  # to read a page whose notifications are marked as read meanwhile


class KnownNumber(NamedTuple):
    """What PostgreSQL knows of a user's unread number; `counted` is None if the sum of number and deltas is right."""

    user_id: UserKey
    unread_count: int
    epoch: int
    is_passed: bool  # Redis' open epoch was flushed already
    has_mark: bool  # a read mark covers rows
    counted: int | None


class Sum(NamedTuple):
    """A user's unread number, and the part of it that Redis has.

    `incarnation` is empty if the number is not the sum of the stored number and Redis' deltas, because rows were
    counted, or the current transaction has changed rows. `delta` is the user's delta in the open `epoch`. The number
    includes this delta and all earlier ones.
    """

    unread: int
    incarnation: str
    epoch: int
    delta: int


class UnreadOfKind(NamedTuple):
    """How many notifications of a kind are unread."""

    kind: str
    unread: int


BY_KIND = Statement("by_kind", row=UnreadOfKind, commits=False, prepare=True)
UNREAD_NUMBERS = Statement("unread_numbers", row=KnownNumber, commits=False, prepare=True)


def unread_count(user_id: UserKey) -> int:
    """Return the user's unread number; see `unread_counts`."""
    return unread_counts([user_id])[user_keys.clean(user_id)]


def unread_counts(user_ids: Iterable[UserKey]) -> dict[UserKey, int]:
    """Return each user's unread number; this takes one call to Redis and one query for each 5,000 users.

    A number includes every committed transaction whose delta was sent. A delta is sent before the call that commits
    returns. The number also includes the changes that the current transaction has made so far. If Redis cannot be
    reached, or lost deltas that are not reconciled yet, rows are counted instead, up to 10,000 for each user. If a user
    has more, the number is the sum of the stored number and Redis' deltas, and at least 10,000. Inside a REPEATABLE
    READ or SERIALIZABLE transaction the parts of a number may be of different moments.
    """
    users = user_keys.distinct(user_ids)
    numbers: dict[UserKey, int] = {}
    for start in range(0, len(users), counters.AT_ONCE):
        numbers.update(_numbers(users[start : start + counters.AT_ONCE]))
    return numbers


def _numbers(users: Collection[UserKey]) -> dict[UserKey, int]:
    peek, rows = _look(users)
    pending = changes.pending(using=DEFAULT_DB_ALIAS)
    return {row.user_id: _shown(row, peek, pending[row.user_id]) for row in rows}


def unread_sum(user_id: UserKey) -> Sum:
    """Return the user's unread number, as `unread_count` does, and the part of it that Redis has."""
    user = user_keys.clean(user_id)
    peek, [row] = _look([user])
    pending = changes.pending(using=DEFAULT_DB_ALIAS)[user]
    epoch = max(peek.deltas, default=0)
    is_sum = row.counted is None and not pending
    delta = peek.after(epoch - 1, user)
    return Sum(_shown(row, peek, pending), peek.incarnation if is_sum else "", epoch, delta)


def _look(users: Collection[UserKey]) -> tuple[counters.Peek, list[KnownNumber]]:
    """Read Redis first, and then PostgreSQL, so that the stored number has an epoch that is flushed in between.

    If PostgreSQL says that the open epoch was flushed already, this happened in between, or Redis came back older than
    it was. A second look distinguishes the two: if the open epoch that it sees was flushed, too, Redis came back older,
    and rows are counted.
    """
    peek, rows = _look_once(users)
    if peek.incarnation and rows[0].is_passed:
        peek, rows = _look_once(users)
    return peek, rows


def _look_once(users: Collection[UserKey]) -> tuple[counters.Peek, list[KnownNumber]]:
    try:
        peek = counters.peek(users)
    except counters.RedisUnreachable as error:
        outages.warn("unread_counted_without_redis", error)
        peek = counters.Peek(deltas={})
    rows = UNREAD_NUMBERS(
        users=user_keys.array(users),
        incarnation=peek.incarnation,
        open_epoch=max(peek.deltas, default=0),
        most_counted=MOST_COUNTED,
    )
    return peek, rows


def _shown(row: KnownNumber, peek: counters.Peek, pending: int) -> int:
    """Return the number to show: the count of the rows, if they were counted, and otherwise the sum.

    If counting stopped at MOST_COUNTED, the greater of the two is shown. For a user with a read mark it is always the
    count, because the sum includes the rows that the mark covers.
    """
    known = max(0, row.unread_count + peek.after(row.epoch, row.user_id) + pending)
    if row.counted is None:
        return known
    return max(known, row.counted) if row.counted == MOST_COUNTED and not row.has_mark else row.counted


def unread_by_kind(user_id: UserKey) -> dict[str, int]:
    """Return the user's unread numbers by kind; kinds without unread notifications are left out.

    One statement counts the rows as the current transaction sees them, with its own changes so far. Redis is not asked,
    and no number is late. If a user has more than 10,000 unread notifications, the 10,000 that became unread last are
    counted. A call reads all rows that it counts, while `unread_count` costs the same for any number of rows.
    """
    parameters = {"user": user_keys.clean(user_id), "most_counted": MOST_COUNTED}
    found = BY_KIND(**parameters)
    return dict(found)


def page(
    user_id: UserKey, *, before: int | None = None, limit: int = 20, unread_only: bool = False
) -> list[Notification]:
    """Return the user's newest notifications; with `before`, the newest before the notification with this id.

    For the next page, `before` is the id of this page's last notification. So a page costs the same however far back it
    is. Raises ValueError for a limit below 1.
    """
    if limit < 1:
        raise ValueError(f"limit must be at least 1, but is {limit}.")
    user = user_keys.clean(user_id)
    return _newest_unread(user, before, limit) if unread_only else _newest(user, before, limit)


def _newest_unread(user_id: UserKey, before: int | None, limit: int) -> list[Notification]:
    """Read the page in one statement, which also says whether a read mark covers some of it. Most users have no mark.

    If a mark covers some rows, look up the ids of rows that it does not cover, and fetch these rows. If some of them
    were read meanwhile, do so again.
    """
    shown = _newest(user_id, before, limit, read_at__isnull=True)
    for _ in range(TRIES):
        if not any(row.read_at for row in shown):
            break
        ids = read_marks.newest_uncovered(user_id, before, limit)
        shown = _newest(user_id, before, limit, pk__in=ids)
    return [row for row in shown if not row.read_at]


def _newest(user_id: UserKey, before: int | None, limit: int, **conditions: object) -> list[Notification]:
    rows = Notification.objects.filter(user_id=user_id, **conditions).order_by("-id")
    if before is not None:
        rows = rows.filter(id__lt=before)
    shown: list[Any] = list(rows.with_covered_at()[:limit])
    for row in shown:
        row.read_at = row.read_at or row.covered_at
    return shown
