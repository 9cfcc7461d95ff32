"""Writes notifications, and marks them as read and as unread."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

from django.db import DEFAULT_DB_ALIAS, IntegrityError, transaction
from django.db.models import QuerySet
from django.db.models.functions import Now

from weir.notifications import changes, user_keys
from weir.notifications.channels import kinds, preferences
from weir.notifications.channels.kinds import EmailedRow, NotificationKind
from weir.notifications.inbox import read_marks
from weir.notifications.inbox.reading import unread_count
from weir.notifications.models import MOST_OF_DEDUPE_KEY, Channel, Notification
from weir.notifications.user_keys import UserKey
from weir.postgres.moments import in_utc
from weir.postgres.statements import Statement

AT_ONCE = 50_000  # users in one statement
MOST_MARKED = 1_000  # notifications that mark_all_read changes without a read mark: this takes some ten milliseconds
TRIES = 3  # to write or find a row: the row that made one try fail may be deleted before the next try reads it


class UnmarkedRows(NamedTuple):
    """How many notifications were read, and how many of these had a `read_at`. A read mark covered the others."""

    changed: int
    counted: int


class WrittenRow(NamedTuple):
    """A notification that was written, and whether an e-mail of its own tells it."""

    id: int
    user_id: UserKey
    is_emailed: bool


# Returns None, and changes nothing, if there are too many notifications.
MARK_ALL_READ: Statement[int | None] = Statement("mark_all_read", returns=int, commits=False, prepare=True)
MARK_READ = Statement("mark_read", returns=int, commits=False, prepare=True)
MARK_UNREAD = Statement("mark_unread", row=UnmarkedRows, commits=False, prepare=True)
NOTIFY = Statement("notify", commits=False)
NOTIFY_BY_CHANNEL = Statement("notify_by_channel", row=WrittenRow, commits=False)
NOTIFY_ONCE = Statement("notify_once", returns=UserKey, commits=False)


def notify(
    user_id: UserKey,
    kind: str,
    title: str,
    *,
    body: str = "",
    url: str = "",
    dedupe_key: str | None = None,
    expires_at: datetime | None = None,
) -> Notification:
    """Write one notification for one user.

    If one of the user's notifications, read or unread, has the `dedupe_key`, that notification is returned, and nothing
    is written. A call waits for another transaction that has just written the key. The notification is deleted at
    `expires_at`, which must have a time zone, or about ten seconds later at most. If `expires_at` is past already, the
    notification is deleted soon. If the kind is registered, the user is told by the channel that the user has chosen,
    or else the kind's own; by the channel `none`, nothing is written, and the notification that is returned has no id.
    Raises ValueError for a `dedupe_key` that is not text, empty, or longer than 255 characters, and for a time that has
    no zone, or is outside the years 1 to 9999 of UTC.
    """
    _check_dedupe_key(dedupe_key)
    expires_at = in_utc("expires_at", expires_at)
    user = user_keys.clean(user_id)
    values = {
        "user_id": user,
        "kind": kind,
        "title": title,
        "body": body,
        "url": url,
        "dedupe_key": dedupe_key,
        "expires_at": expires_at,
    }
    channel = preferences.preference(user, kind) if kinds.find(kind) else Channel.PAGE
    if channel == Channel.NONE:
        return Notification(**values)
    write = partial(_write_told, values, channel) if channel != Channel.PAGE else partial(_write, values)
    if dedupe_key is None:
        return write()
    return _write_once(write, Notification.objects.filter(user_id=user, dedupe_key=dedupe_key))


def _write(values: dict[str, Any]) -> Notification:
    return Notification.objects.create(**values)


def _write_told(values: dict[str, Any], channel: Channel) -> Notification:
    """Write a notification that an e-mail tells: a digest, when it is due, or one of its own, which is queued here."""
    if channel == Channel.DIGEST:
        return Notification.objects.create(**values, digest_due_at=Now() + kinds.get(values["kind"]).digest_after)
    with transaction.atomic():
        row = Notification.objects.create(**values, digest_due_at=Now())
        kinds.deliver([EmailedRow(row.pk, row.user_id)])
    return row


def _check_dedupe_key(dedupe_key: str | None) -> None:
    if dedupe_key is not None and not _is_dedupe_key(dedupe_key):
        raise ValueError(f"dedupe_key must be text of 1 to {MOST_OF_DEDUPE_KEY} characters, but is {dedupe_key!r}.")


def _is_dedupe_key(key: object) -> bool:
    return isinstance(key, str) and 0 < len(key) <= MOST_OF_DEDUPE_KEY and "\0" not in key


def _write_once(write: Callable[[], Notification], having_the_key: QuerySet[Notification]) -> Notification:
    for _ in range(TRIES - 1):
        with suppress(IntegrityError):  # another transaction wrote the key first
            return _first_or_written(having_the_key, write)
    return _first_or_written(having_the_key, write)


def _first_or_written(having_the_key: QuerySet[Notification], write: Callable[[], Notification]) -> Notification:
    if first := having_the_key.first():
        return first
    with transaction.atomic():
        return write()


def notify_many(
    user_ids: Iterable[UserKey],
    kind: str,
    title: str,
    *,
    body: str = "",
    url: str = "",
    dedupe_key: str | None = None,
    expires_at: datetime | None = None,
) -> int:
    """Write one notification for each of many users; returns how many were written. Writes all of them or none.

    100,000 users take two statements. `dedupe_key`, `expires_at` and channels mean the same as for `notify`. Users who
    have a notification with this key are left out, and so are those who are not told of this kind.
    """
    _check_dedupe_key(dedupe_key)
    expires_at = in_utc("expires_at", expires_at)
    users = user_keys.distinct(user_ids)
    values = {
        "kind": kind,
        "title": title,
        "body": body,
        "url": url,
        "dedupe_key": dedupe_key,
        "expires_at": expires_at,
    }
    with transaction.atomic():
        told = _write_all(users, values)
        changes.record(dict.fromkeys(told, 1), using=DEFAULT_DB_ALIAS)
    return len(told)


def _write_all(users: list[UserKey], values: dict[str, Any]) -> list[UserKey]:
    """Return the users for whom a notification was written."""
    if kind := kinds.find(values["kind"]):
        return _write_by_channel(users, values, kind)
    if values["dedupe_key"] is not None:
        return _write_all_once(users, values)
    for part in _parts(users):
        NOTIFY(**values, users=part)
    return users


def _write_by_channel(users: list[UserKey], values: dict[str, Any], kind: NotificationKind) -> list[UserKey]:
    told: list[UserKey] = []
    chosen = {"channel": kind.channel.value, "digest_after": kind.digest_after}
    for part in _parts(sorted(users) if values["dedupe_key"] is not None else users):
        rows = NOTIFY_BY_CHANNEL(**values, **chosen, users=part)
        kinds.deliver([EmailedRow(row.id, row.user_id) for row in rows if row.is_emailed])
        told += [row.user_id for row in rows]
    return told


def _write_all_once(users: list[UserKey], values: dict[str, Any]) -> list[UserKey]:
    """Return the users who had no notification with the key.

    Two calls at the same time cannot deadlock, because both write the users in the same order. The users are sorted
    here, so that the order does not depend on PostgreSQL's collation.
    """
    return [user for part in _parts(sorted(users)) for user in NOTIFY_ONCE(**values, users=part)]


def _parts(users: list[UserKey]) -> Iterator[str]:
    for start in range(0, len(users), AT_ONCE):
        yield user_keys.array(users[start : start + AT_ONCE])


def mark_read(user_id: UserKey, ids: Iterable[int]) -> int:
    """Mark these notifications of the user as read; returns how many were unread before.

    If two calls mark the same notification at the same time, only one of them counts it. Other users' notifications do
    not change.
    """
    user, since = user_keys.clean(user_id), time.monotonic()
    [changed] = MARK_READ(user=user, ids=list(ids))
    changes.record({user: -changed}, using=DEFAULT_DB_ALIAS, since=since)
    return changed


def mark_all_read(user_id: UserKey) -> int:
    """Mark all of the user's notifications as read; returns how many were unread. New notifications stay unread.

    Notifications of transactions that have not committed yet count as new, too. Up to 1,000 notifications are changed
    directly. More are covered by one row, a `ReadMark`. In this case the returned number is what `unread_count` showed,
    and each `read_at` is set within seconds.
    """
    user, since = user_keys.clean(user_id), time.monotonic()
    [changed] = MARK_ALL_READ(user=user, most=MOST_MARKED)
    if changed is None:
        shown = unread_count(user)
        read_marks.mark_all(user)
        return shown
    changes.record({user: -changed}, using=DEFAULT_DB_ALIAS, since=since)
    return changed


def mark_unread(user_id: UserKey, ids: Iterable[int]) -> int:
    """Mark these notifications of the user as unread; returns how many were read before."""
    user, since = user_keys.clean(user_id), time.monotonic()
    [marked] = MARK_UNREAD(user=user, ids=list(ids))
    changes.record({user: marked.counted}, using=DEFAULT_DB_ALIAS, since=since)
    return marked.changed
