"""Forgetting users: when a user is deleted, the notifications and the number are removed, in Redis, too.

However a user of AUTH_USER_MODEL is deleted, a signal deletes the notifications in the same transaction. For users who
live elsewhere, as the setting WEIR_USER_KEY says, the application calls `forget_user`.

Two things cannot be removed immediately: what transactions that are still open have written for the user, and a stored
number with deltas on their way to it. A note (`ForgottenUser`) makes later runs look until everything is gone:

1. The first run notes `until_xid`: from here on, what new transactions write belongs to a user who came back.
2. Delete the notifications that earlier transactions wrote, as these end.
3. When all of them have ended, and nothing is left, remove the stored number and the note; of a user who came back,
   only the note.
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
from weir.notifications.user_keys import UserKey
from weir.postgres.statements import Statement

BATCH = 1_000  # notifications that are deleted in the caller's transaction, and in each short one afterwards
USERS_AT_ONCE = 1_000
FIRST_ID = -(2**63)  # below all others


class DeletedRows(NamedTuple):
    """How many notifications were deleted, how many of these had no `read_at`, and the last id."""

    deleted: int
    unread: int
    last_id: int | None


class NotedUser(NamedTuple):
    """A user of whom something may be left; `has_rows` if there are notifications among it."""

    user_id: UserKey
    has_rows: bool


CLOSE_FORGETTING = Statement("close_forgetting", commits=False)
DELETE_FORGOTTEN = Statement("delete_forgotten", row=DeletedRows, commits=False)
FINISH_FORGETTING = Statement("finish_forgetting", returns=int, commits=False)
NOTED_FORGETTING = Statement("noted_forgetting", row=NotedUser, commits=False)
NOTE_FORGETTING = Statement("note_forgetting", commits=False)
RETURNED_USERS = Statement("returned_users", commits=False)


def forget_user(user_id: UserKey) -> None:
    """Delete a user's notifications and number, in the caller's transaction; what takes long follows within seconds.

    Up to 1,000 notifications are deleted immediately, and all of them if they have a foreign key to the user. Those
    that are written until the next run (`finish`), or by transactions that had begun to write by then, are deleted,
    too. From then on the same key may be used again. Raises ValueError for what cannot be a user's key.
    """
    user = user_keys.clean(user_id)
    with transaction.atomic():
        NOTE_FORGETTING(user=user)
        while _delete(user).deleted == BATCH and settings.WEIR_USER_FOREIGN_KEY:
            _delete_until(math.inf, user)  # and once more: lower ids may have been committed meanwhile


def connect_to_users() -> None:
    """Forget users of AUTH_USER_MODEL when they are deleted, if notifications have these users' keys."""
    if user_keys.are_of_accounts():
        for model in apps.get_models():
            _connect_to(model)
        class_prepared.connect(_connect_to, dispatch_uid="weir.notifications.forgetting")


def finish(within_s: float = math.inf) -> int:
    """Remove what is left of forgotten users; return the number of users of whom nothing is left.

    No further step begins after `within_s`; the next call goes on. May be killed at any point, and run twice at the
    same time. Raises `counters.RedisUnreachable`, after the notifications were deleted, and database errors.
    """
    CLOSE_FORGETTING()
    began_at = time.monotonic()
    half = began_at + within_s / 2  # a user with millions of notifications does not delay other users' numbers
    for noted in _pages(half):
        for user in noted:
            if user.has_rows:
                _delete_until(half, user.user_id)
    return sum(_finish([user.user_id for user in noted]) for noted in _pages(began_at + within_s))


def _pages(give_up_at: float) -> Iterator[list[NotedUser]]:
    """Yield all users who are to be forgotten, a page at a time: users who have to wait do not delay others."""
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
        watching.forget_pasts()  # after the peek: epochs that were live before it may be kept by now
    parameters = {"users": user_keys.array(settled), "oldest_live": min(peek.deltas, default=0)}
    [forgotten] = FINISH_FORGETTING(**parameters)
    return forgotten


def _delete_until(give_up_at: float, user: UserKey) -> None:
    """Delete all notifications of the user, in the order of their ids, or those for which there is time."""
    rows = DeletedRows(deleted=BATCH, unread=0, last_id=FIRST_ID)
    while rows.deleted == BATCH and time.monotonic() < give_up_at:
        rows = _delete(user, after=rows.last_id)


def _delete(user: UserKey, *, after: int | None = FIRST_ID) -> DeletedRows:
    with transaction.atomic():
        [rows] = DELETE_FORGOTTEN(user=user, after=after, batch=BATCH)
        changes.record({user: -rows.unread}, using=DEFAULT_DB_ALIAS)
    return rows


def _connect_to(sender: type[models.Model], **_signal: Any) -> None:
    """Listen to the model if it is the user model, or a proxy of it: Django names a proxy as the sender.

    With a row of an inheriting model that has its own table, Django also deletes the user's row, and names the user
    model for it. With a receiver for all senders, Django would load the rows of every model that are deleted.
    """
    if sender._meta.concrete_model is get_user_model()._meta.concrete_model:  # noqa: SLF001  Django documents it
        pre_delete.connect(_forget_deleted, sender=sender, dispatch_uid="weir.notifications.forgetting")


def _forget_deleted(instance: Any, **_signal: Any) -> None:  # noqa: ANN401  a user of whatever model
    forget_user(instance.pk)
