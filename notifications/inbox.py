"""What web code calls: tell users something, mark it as read, ask how much is unread.

Rows are written in the caller's transaction, and the unread number changes when that commits. Nothing here raises
because Redis is down: what is missed then is healed, and numbers are counted from the rows meanwhile.
"""

import time
from collections.abc import Collection, Iterable
from typing import Any

from django.db import DEFAULT_DB_ALIAS, transaction

from notifications import changes, counters, outages
from notifications.models import Notification
from postgres import statements

MOST_COUNTED = 10_000  # rows of one user, where the number has to be counted
AT_ONCE = 50_000  # users in one statement


def notify(user_id: int, kind: str, title: str, *, body: str = "", url: str = "") -> Notification:
    """Tell one user something."""
    return Notification.objects.create(user_id=user_id, kind=kind, title=title, body=body, url=url)


def notify_many(user_ids: Iterable[int], kind: str, title: str, *, body: str = "", url: str = "") -> int:
    """Tell many users the same, each once; returns how many. All or none, in a few statements for 100,000 of them."""
    users = list(dict.fromkeys(user_ids))
    with transaction.atomic():
        for start in range(0, len(users), AT_ONCE):
            told = statements.bigints(users[start : start + AT_ONCE])
            statements.run_within(
                "notifications", "notify", {"users": told, "kind": kind, "title": title, "body": body, "url": url}
            )
        changes.record(dict.fromkeys(users, 1), using=DEFAULT_DB_ALIAS)
    return len(users)


def mark_read(user_id: int, ids: Iterable[int]) -> int:
    """Mark this user's notifications of these ids as read; returns how many were unread, and are no more.

    Of two calls at once for the same notification, one counts it. Somebody else's notification is not touched.
    """
    return _mark("mark_read", {"user": user_id, "ids": list(ids)}, -1)


def mark_all_read(user_id: int) -> int:
    """Mark all that is unread as read; returns how many that were. What comes meanwhile stays unread."""
    return _mark("mark_all_read", {"user": user_id}, -1)


def mark_unread(user_id: int, ids: Iterable[int]) -> int:
    """Mark this user's notifications of these ids as unread again; returns how many were read, and are no more."""
    return _mark("mark_unread", {"user": user_id, "ids": list(ids)}, 1)


def _mark(statement: str, parameters: dict[str, Any], sign: int) -> int:
    since = time.monotonic()
    changed = int(statements.run_within("notifications", statement, parameters, prepare=True)[0].changed)
    changes.record({parameters["user"]: sign * changed}, using=DEFAULT_DB_ALIAS, since=since)
    return changed


def unread_count(user_id: int) -> int:
    """Return how many notifications of the user are unread; see `unread_counts`."""
    return unread_counts([user_id])[user_id]


def unread_counts(user_ids: Iterable[int]) -> dict[int, int]:
    """Return how many notifications of each user are unread: one call to Redis and one query for 5,000 users.

    The number is that of all committed transactions whose process has come as far as the delta, which it sends before
    the call that committed returns. Where Redis is out of reach, or lost deltas that are not healed yet, rows are
    counted instead, and a user who has more than 10,000 unread is told 10,000. Inside a transaction of more than READ
    COMMITTED the number may be of different moments.
    """
    users = list(dict.fromkeys(user_ids))
    numbers: dict[int, int] = {}
    for start in range(0, len(users), counters.AT_ONCE):
        numbers.update(_numbers(users[start : start + counters.AT_ONCE]))
    return numbers


def _numbers(users: Collection[int]) -> dict[int, int]:
    """Look at Redis first: an epoch that is flushed and dropped in between is then in the stored number.

    Where the open epoch was flushed already, that happened in between, or Redis came back older than it was. So look
    again: this time it is the latter.
    """
    peek, rows = _look(users)
    if peek.incarnation and rows[0].is_passed:
        peek, rows = _look(users)
    return {row.user_id: _shown(row, peek) for row in rows}


def _look(users: Collection[int]) -> tuple[counters.Peek, list[Any]]:
    try:
        peek = counters.peek(users)
    except counters.Unreachable as error:
        outages.warn("unread_counted_without_redis", error)
        peek = counters.Peek(deltas={})
    rows = statements.run_within(
        "notifications",
        "numbers",
        {
            "users": users,
            "incarnation": peek.incarnation,
            "open_epoch": max(peek.deltas, default=0),
            "most_counted": MOST_COUNTED,
        },
        prepare=True,
    )
    return peek, rows


def _shown(row: Any, peek: counters.Peek) -> int:  # noqa: ANN401  a row of numbers.sql
    if row.counted is not None:
        return int(row.counted)
    return max(0, int(row.unread_count) + peek.after(row.epoch, row.user_id))


def page(user_id: int, *, before: int | None = None, limit: int = 20, unread_only: bool = False) -> list[Notification]:
    """Return the user's newest notifications, or the newest before the one of the id `before`.

    The next page begins before the last one's id, so a page costs the same however far back it is. Raises ValueError
    for a limit below 1.
    """
    if limit < 1:
        raise ValueError(f"limit must be at least 1, but is {limit}.")
    rows = Notification.objects.filter(user_id=user_id).order_by("-id")
    if before is not None:
        rows = rows.filter(id__lt=before)
    return list((rows.unread() if unread_only else rows)[:limit])
