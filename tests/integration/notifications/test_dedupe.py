"""Notifications with a dedupe key: one for each user, however often code calls, and counted once."""

from collections.abc import Callable
from contextlib import suppress
from threading import Event
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext

from tests.integration.conftest import Eventually, InThreads, WaitersOf
from tests.integration.notifications.unread import MARKS, assert_exact
from weir.notifications import inbox
from weir.notifications.models import Notification

pytestmark = MARKS

KEY = "order-7-shipped"
Tell = Callable[[], Any]


def tell(user_id: int = 1, **options: Any) -> Notification:
    return inbox.notify(user_id, "order.shipped", "On its way", **{"dedupe_key": KEY, **options})


def tell_many(*users: int) -> int:
    return inbox.notify_many(users, "order.shipped", "On its way", dedupe_key=KEY)


def create(user_id: int, dedupe_key: str | None = KEY) -> Notification:
    return Notification.objects.create(user_id=user_id, kind="news", title="", dedupe_key=dedupe_key)


def test_a_second_call_with_the_key_returns_the_first_row() -> None:
    """Even if it was read since; with another user, another key or no key it is another notification."""
    first = tell(body="first")
    assert (first.dedupe_key, first.body) == (KEY, "first")
    assert tell(body="second") == first
    assert inbox.unread_count(1) == 1
    inbox.mark_read(1, [first.pk])
    again = tell()
    assert (again.pk, again.body) == (first.pk, "first")
    assert inbox.unread_count(1) == 0
    assert (
        len({row.pk for row in (first, tell(2), tell(dedupe_key="x"), tell(dedupe_key=None), tell(dedupe_key=None))})
        == 5
    )
    assert_exact(1, 2)


def test_a_deleted_row_ends_its_key() -> None:
    """The next call writes."""
    tell().delete()
    tell()
    assert inbox.unread_count(1) == 1
    assert_exact(1)


def test_many_are_told_but_for_those_who_have_the_key() -> None:
    """The number of written ones is returned, and only these are counted."""
    tell(2)
    assert tell_many(3, 1, 2, 3) == 2
    assert tell_many(1, 2, 3) == 0
    assert tell_many(4, 1) == 1
    tell(4)
    assert inbox.unread_counts(range(1, 6)) == {1: 1, 2: 1, 3: 1, 4: 1, 5: 0}
    assert_exact(1, 2, 3, 4)


@pytest.mark.parametrize("commits", [True, False], ids=["commits", "rolls back"])
@pytest.mark.parametrize("second", [tell, lambda: tell_many(1)], ids=["notify", "notify_many"])
@pytest.mark.parametrize(
    "first", [tell, lambda: tell_many(1), lambda: create(1)], ids=["notify", "notify_many", "the ORM"]
)
def test_of_two_at_once_one_writes(
    *, first: Tell, second: Tell, commits: bool, in_threads: InThreads, waiters: WaitersOf, eventually: Eventually
) -> None:
    """The second waits for the end of the first one's transaction, and writes if that is rolled back."""
    told = Event()

    def one(number: int) -> None:
        with transaction.atomic():
            if number:
                eventually(told.is_set, "the first to tell")
                second()
                return
            first()
            told.set()
            eventually(lambda: waiters(connection.connection), "the second to wait")
            transaction.set_rollback(not commits)

    in_threads(2, one)
    assert Notification.objects.count() == 1
    assert inbox.unread_count(1) == 1
    assert_exact(1)


def test_two_that_tell_many_at_once_do_not_deadlock(
    in_threads: InThreads, waiters: WaitersOf, eventually: Eventually, other_connection: Any
) -> None:
    """This holds for any order in which the users are named."""
    other_connection.execute(
        "INSERT INTO weir_notifications_notification (user_id, kind, title, body, url, dedupe_key) "
        "VALUES (3, '', '', '', '', %s)",
        [KEY],
    )

    def one(number: int) -> int:
        if number < 2:
            return tell_many(*([1, 2, 3, 4, 5][:: 1 - 2 * number]))
        eventually(lambda: waiters(other_connection) == 2, "both to wait")
        other_connection.rollback()
        return 0

    assert sum(in_threads(3, one)) == 5
    assert_exact(1, 2, 3, 4, 5)


@pytest.mark.parametrize(
    "change",
    [
        lambda: create(1),
        lambda: Notification.objects.bulk_create([Notification(user_id=1, kind="news", title="", dedupe_key=KEY)]),
        lambda: Notification.objects.filter(user_id=1, dedupe_key=None).update(dedupe_key=KEY),
        lambda: Notification.objects.filter(user_id=2).update(user_id=1),
    ],
    ids=["create", "bulk_create", "update of the key", "update of the user"],
)
def test_the_orm_refuses_a_second_row_with_the_key(change: Tell) -> None:
    """Django's IntegrityError; no row and no number has changed."""
    tell(1)
    tell(1, dedupe_key=None)
    tell(2)
    rows = list(Notification.objects.order_by("pk").values())
    with pytest.raises(IntegrityError):
        change()
    assert list(Notification.objects.order_by("pk").values()) == rows
    assert_exact(1, 2)


def test_a_refused_row_takes_with_it_what_its_savepoint_counted() -> None:
    """Changes that the caller's transaction made before and afterwards stay, and are counted."""
    first = create(1)
    with transaction.atomic():
        create(2)
        with suppress(IntegrityError), transaction.atomic():
            create(1, None)
            create(1)
        assert tell(1) == first
        create(3)
    assert list(Notification.objects.order_by("pk").values_list("user_id", flat=True)) == [1, 2, 3]
    assert_exact(1, 2, 3)


@pytest.mark.parametrize("key", ["", "x" * 256, "\0", 7])
def test_a_key_that_is_none_is_refused(key: Any) -> None:
    """A sentence says why; a key of 255 characters is accepted."""
    for told in (lambda: tell(dedupe_key=key), lambda: inbox.notify_many([1], "news", "Hello", dedupe_key=key)):
        with pytest.raises(ValueError, match=r"^dedupe_key must be text of 1 to 255 characters, but is "):
            told()
    assert not Notification.objects.exists()
    assert tell(dedupe_key="x" * 255).dedupe_key == "x" * 255


def test_without_a_key_a_notification_is_one_statement() -> None:
    """Only a key costs a second statement."""
    with CaptureQueriesContext(connection) as queries:
        tell(dedupe_key=None)
    assert len(queries) == 1
