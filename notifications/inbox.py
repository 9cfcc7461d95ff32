"""What web code calls: write notifications, mark them as read, ask how many are unread.

Rows are written in the caller's transaction, and the unread number changes when that commits. Nothing here raises
because Redis is down: what Redis missed is reconciled later, and numbers are counted from the rows meanwhile.
"""

import time
from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

from django.db import DEFAULT_DB_ALIAS, transaction

from notifications import changes, counters, outages
from notifications.models import Notification
from postgres import statements

MOST_COUNTED = 10_000  # rows of one user, where rows have to be counted
AT_ONCE = 50_000  # users in one statement


class MarkedRows(NamedTuple):
    """How many notifications were changed."""

    changed: int


class StoredNumber(NamedTuple):
    """What PostgreSQL knows of a user's unread number; `counted` are the rows, where the stored one is not trusted."""

    user_id: int
    unread_count: int
    epoch: int
    is_passed: bool  # Redis' open epoch was flushed already
    counted: int | None


def notify(user_id: int, kind: str, title: str, *, body: str = "", url: str = "") -> Notification:
    """Write one notification for one user."""
    return Notification.objects.create(user_id=user_id, kind=kind, title=title, body=body, url=url)


def notify_many(user_ids: Iterable[int], kind: str, title: str, *, body: str = "", url: str = "") -> int:
    """Write the same notification for many users, each once; returns how many. All or none, in few statements.

    100,000 users take two statements.
    """
    users = list(dict.fromkeys(user_ids))
    with transaction.atomic():
        for start in range(0, len(users), AT_ONCE):
            part = statements.bigints(users[start : start + AT_ONCE])
            statements.run_within(
                "notifications", "inbox/notify", {"users": part, "kind": kind, "title": title, "body": body, "url": url}
            )
        changes.record(dict.fromkeys(users, 1), using=DEFAULT_DB_ALIAS)
    return len(users)


def mark_read(user_id: int, ids: Iterable[int]) -> int:
    """Mark this user's notifications of these ids as read; returns how many were unread before.

    Of two calls at once for the same notification, one counts it. Other users' notifications are left as they are.
    """
    return _mark("inbox/mark_read", {"user": user_id, "ids": list(ids)}, -1)


def mark_all_read(user_id: int) -> int:
    """Mark all of the user's notifications as read; returns how many were unread. New ones stay unread."""
    return _mark("inbox/mark_all_read", {"user": user_id}, -1)


def mark_unread(user_id: int, ids: Iterable[int]) -> int:
    """Mark this user's notifications of these ids as unread again; returns how many were read before."""
    return _mark("inbox/mark_unread", {"user": user_id, "ids": list(ids)}, 1)


def _mark(statement: str, parameters: dict[str, Any], sign: int) -> int:
    since = time.monotonic()
    [marked] = statements.run_within("notifications", statement, parameters, row=MarkedRows, prepare=True)
    changes.record({parameters["user"]: sign * marked.changed}, using=DEFAULT_DB_ALIAS, since=since)
    return marked.changed


def unread_count(user_id: int) -> int:
    """Return how many notifications of the user are unread; see `unread_counts`."""
    return unread_counts([user_id])[user_id]


def unread_counts(user_ids: Iterable[int]) -> dict[int, int]:
    """Return how many notifications of each user are unread: one call to Redis and one query for 5,000 users.

    A number includes every committed transaction whose delta was sent; it is sent before the call that committed
    returns. Where Redis is out of reach, or lost deltas that are not reconciled yet, rows are counted instead, up to
    10,000 a user. Inside a REPEATABLE READ or SERIALIZABLE transaction the parts of a number may be of different
    moments.
    """
    users = list(dict.fromkeys(user_ids))
    numbers: dict[int, int] = {}
    for start in range(0, len(users), counters.AT_ONCE):
        numbers.update(_numbers(users[start : start + counters.AT_ONCE]))
    return numbers


def _numbers(users: Collection[int]) -> dict[int, int]:
    """Look at Redis first: an epoch that is flushed and dropped in between is in the stored number then.

    Where the open epoch was flushed already, that happened in between, or Redis came back older than it was. The second
    look tells the two apart: if its open epoch was flushed, too, Redis came back older, and rows are counted.
    """
    peek, rows = _look(users)
    if peek.incarnation and rows[0].is_passed:
        peek, rows = _look(users)
    return {row.user_id: _shown(row, peek) for row in rows}


def _look(users: Collection[int]) -> tuple[counters.Peek, list[StoredNumber]]:
    try:
        peek = counters.peek(users)
    except counters.Unreachable as error:
        outages.warn("unread_counted_without_redis", error)
        peek = counters.Peek(deltas={})
    rows = statements.run_within(
        "notifications",
        "inbox/numbers",
        {
            "users": users,
            "incarnation": peek.incarnation,
            "open_epoch": max(peek.deltas, default=0),
            "most_counted": MOST_COUNTED,
        },
        row=StoredNumber,
        prepare=True,
    )
    return peek, rows


def _shown(row: StoredNumber, peek: counters.Peek) -> int:
    if row.counted is not None:
        return row.counted
    return max(0, row.unread_count + peek.after(row.epoch, row.user_id))


def page(user_id: int, *, before: int | None = None, limit: int = 20, unread_only: bool = False) -> list[Notification]:
    """Return the user's newest notifications, or the newest before the one of the id `before`.

    The next page begins before the id of this page's last, so a page costs the same however far back it is. Raises
    ValueError for a limit below 1.
    """
    if limit < 1:
        raise ValueError(f"limit must be at least 1, but is {limit}.")
    rows = Notification.objects.filter(user_id=user_id).order_by("-id")
    if before is not None:
        rows = rows.filter(id__lt=before)
    return list((rows.unread() if unread_only else rows)[:limit])
