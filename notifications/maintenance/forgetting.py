"""Forgetting users: when a user is deleted, the user's notifications and number are removed, also from Redis.

However a user of AUTH_USER_MODEL is deleted, a signal deletes the notifications in the same transaction. If users live
elsewhere, as the setting WEIR_USER_KEY says, the application calls `forget_user`.

Two things cannot be removed immediately: rows that transactions that are still open have written for the user, and a
stored number to which deltas are on their way. A row of `ForgottenUser` makes later runs look until nothing is left:

1. The first run records `until_xid`. Rows of later transactions belong to a user who came back with the same key.
2. As earlier transactions end, delete the notifications that they wrote.
3. When all earlier transactions have ended, and none of their notifications is left, remove the stored number and the
   row of `ForgottenUser`. If the user came back, remove only the latter.
"""

import math
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from django.apps import apps
from django.contrib.auth import get_user_model
from django.db import DEFAULT_DB_ALIAS, models, transaction
from django.db.models.signals import class_prepared, pre_delete

from weir.conf import settings
from weir.notifications import changes, counters, user_keys, watching
from weir.notifications.channels import preferences
from weir.notifications.user_keys import UserKey
from weir.postgres.statements import Statement

BATCH = 1_000  # notifications that are deleted in the caller's transaction, and in each short transaction afterwards
USERS_AT_ONCE = 1_000
FIRST_ID = -(2**63)  # the lowest id that PostgreSQL can have


class DeletedRows(NamedTuple):
    """How many notifications were deleted, how many of these had no `read_at`, and the highest id of these."""

    deleted: int
    unread: int
    last_id: int | None


class NotedUser(NamedTuple):
    """A user of whom something may be left; `has_rows` if there are notifications to delete."""

    user_id: UserKey
    has_rows: bool


CLOSE_FORGETTING = Statement("close_forgetting", commits=False)
DELETE_FORGOTTEN = Statement("delete_forgotten", row=DeletedRows, commits=False)
FINISH_FORGETTING = Statement("finish_forgetting", returns=int, commits=False)
NOTED_FORGETTING = Statement("noted_forgetting", row=NotedUser, commits=False)
NOTE_FORGETTING = Statement("note_forgetting", commits=False)
RETURNED_USERS = Statement("returned_users", commits=False)


def forget_user(user_id: UserKey) -> None:
    """Delete a user's notifications, number and preferences, in the caller's transaction.

    What takes long is deleted seconds later.

    Up to 1,000 notifications are deleted immediately, or all of them if they have a foreign key to the user. The next
    run of `finish` deletes the rest, and notifications that were written before it or by transactions that had begun to
    write before it. From then on the same key may be used again. Raises ValueError for a value that cannot be a user's
    key.
    """
    user = user_keys.clean(user_id)
    with transaction.atomic():
        NOTE_FORGETTING(user=user)
        preferences.forget(user)
        while _delete(user).deleted == BATCH and settings.WEIR_USER_FOREIGN_KEY:
            _delete_until(math.inf, user)  # then look again: lower ids may have been committed meanwhile


def connect_to_users() -> None:
    """Forget users of AUTH_USER_MODEL when they are deleted, if notifications have the keys of this model."""
    if user_keys.are_of_accounts():
        for model in apps.get_models():
            _connect_to(model)
        class_prepared.connect(_connect_to, dispatch_uid="weir.notifications.forgetting")


def finish(within_s: float = math.inf) -> int:
    """Remove what is left of forgotten users; return the number of users of whom nothing is left.

    No further step begins after `within_s` seconds; the next call goes on. May be killed at any point, and may run
    twice at the same time. Raises database errors, and, after the notifications were deleted,
    `counters.RedisUnreachable`.
    """
    CLOSE_FORGETTING()
    began_at = time.monotonic()
    half = began_at + within_s / 2  # so a user with millions of notifications does not delay other users' numbers
    for noted in _pages(half):
        for user in noted:
            if user.has_rows:
                _delete_until(half, user.user_id)
    return sum(_finish([user.user_id for user in noted]) for noted in _pages(began_at + within_s))


def _pages(give_up_at: float) -> Iterator[list[NotedUser]]:
    """Yield all users who are to be forgotten, in pages, so that users who have to wait do not delay others."""
    after = None
    while time.monotonic() < give_up_at:
        noted = NOTED_FORGETTING(after=after, most=USERS_AT_ONCE)
        if noted:
            yield noted
        if len(noted) < USERS_AT_ONCE:
            break
        after = noted[-1].user_id


def _finish(users: list[UserKey]) -> int:
    RETURNED_USERS(users=user_keys.array(users))
    peek = counters.peek(users)
    settled = [user for user in users if not peek.of(user)]
    if settled:
        watching.forget_pasts()  # after the peek, because epochs that were live before it may be kept for polls by now
    parameters = {"users": user_keys.array(settled), "oldest_live": min(peek.deltas, default=0)}
    [forgotten] = FINISH_FORGETTING(**parameters)
    return forgotten


def _delete_until(give_up_at: float, user: UserKey) -> None:
    """Delete the notifications of the user in the order of their ids, all of them or as many as time allows."""
    rows = DeletedRows(deleted=BATCH, unread=0, last_id=FIRST_ID)
    while rows.deleted == BATCH and time.monotonic() < give_up_at:
        rows = _delete(user, after=rows.last_id)


def _delete(user: UserKey, *, after: int | None = FIRST_ID) -> DeletedRows:
    with transaction.atomic():
        [rows] = DELETE_FORGOTTEN(user=user, after=after, batch=BATCH)
        changes.record({user: -rows.unread}, using=DEFAULT_DB_ALIAS)
    return rows


def _connect_to(sender: type[models.Model], **_signal: Any) -> None:
    """Connect a receiver if the model is the user model or a proxy of it, because a proxy is a sender of its own.

    A model that inherits from the user model, with a table of its own, needs no receiver: Django also deletes the row
    of the user model, and names this model as the sender. One receiver for all senders would make Django load the rows
    of every model before it deletes them.
    """
    if sender._meta.concrete_model is get_user_model()._meta.concrete_model:  # noqa: SLF001  Django documents it
        pre_delete.connect(_forget_deleted, sender=sender, dispatch_uid="weir.notifications.forgetting")


def _forget_deleted(instance: Any, **_signal: Any) -> None:  # noqa: ANN401  a user of whatever model
    forget_user(instance.pk)
