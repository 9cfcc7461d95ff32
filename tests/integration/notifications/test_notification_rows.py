"""Every way of the ORM that changes unread rows changes the numbers, by what the rows really did, when it commits."""

from collections.abc import Callable
from contextlib import nullcontext
from threading import Event
from typing import Any

import psycopg
import pytest
import redis
from django.core.exceptions import FieldDoesNotExist
from django.db import NotSupportedError, connection, transaction
from django.db.models import Case, Count, Exists, F, OuterRef, Subquery, When
from django.db.models.functions import Now
from django.db.models.signals import post_save, pre_delete
from django.test.utils import CaptureQueriesContext
from pytest_django import DjangoAssertNumQueries

from tests.cases import case
from tests.integration.conftest import Eventually, InThreads, WaitersOf
from tests.integration.notifications.notification_ways import (
    BEFORE,
    THEN,
    WAYS,
    Rows,
    Way,
    bulk_update,
    changed,
    mine,
    new,
    objects,
    save,
)
from tests.integration.notifications.unread import MARKS, assert_exact, kept, unread_rows
from weir.notifications import flush, inbox, querysets
from weir.notifications.models import Notification

pytestmark = MARKS


@pytest.fixture
def rows(valkey: redis.Redis) -> Rows:  # noqa: ARG001  first of all, it empties Redis
    """Make notifications, half of them flushed: a, b, c, d of user 1, e, f, g of user 2; d and g are read."""
    return made_anew()


def made_anew() -> Rows:
    """Delete all rows, and make them again; the numbers, too, are as before."""
    objects.all().delete()
    made = objects.bulk_create(new(1 + (title > "d"), title=title) for title in "abcdefg")
    flush.flush_sealed()
    bulk_update([made[3], made[6]], "read_at", read_at=THEN)
    assert inbox.unread_counts([1, 2, 3]) == kept([1, 2, 3]) == BEFORE
    return loaded()


def loaded() -> Rows:
    """Return the rows as they are now, by their titles."""
    return Rows(**{row.title: row for row in objects.all()})


class Undone(Exception):
    pass


@pytest.mark.parametrize("in_a_transaction", [True, False], ids=["in a transaction", "by itself"])
def test_a_change_counts_at_once_for_its_transaction_and_at_its_commit_for_all(*, in_a_transaction: bool) -> None:
    """Inside the transaction the numbers are those of its rows; others see them right after the commit.

    If every statement commits by itself, that is as soon as the call returns. The next way begins with a flush.
    """
    for way in WAYS:
        with case(way.name):
            rows, numbers = made_anew(), BEFORE | way.numbers
            with transaction.atomic() if in_a_transaction else nullcontext():
                way.go(rows)
                if in_a_transaction:
                    assert inbox.unread_counts([1, 2, 3]) == numbers
                    assert kept([1, 2, 3]) == BEFORE
            assert inbox.unread_counts([1, 2, 3]) == kept([1, 2, 3]) == unread_rows(1, 2, 3) == numbers
    assert_exact(1, 2, 3)


@pytest.mark.usefixtures("rows")
def test_a_change_that_is_rolled_back_never_counts() -> None:
    """In whatever way it was made, nothing is left of it, neither in the rows nor in the numbers."""

    @transaction.atomic
    def undone(way: Way) -> None:
        way.go(loaded())
        raise Undone

    for way in WAYS:
        with pytest.raises(Undone):
            undone(way)
        assert inbox.unread_counts([1, 2, 3]) == BEFORE, way.name
    assert_exact(1, 2, 3)


@pytest.mark.usefixtures("rows")
def test_a_row_that_counts_differently_says_when_it_changed() -> None:
    """In whatever way it changed, changed_at is the time, so that reconciliation looks at users with lost deltas."""

    @transaction.atomic
    def undone(way: Way) -> None:
        before = {row.pk: (row.user_id, row.read_at) for row in objects.all()}
        with connection.cursor() as cursor:
            cursor.execute("SELECT clock_timestamp()")
            [began] = cursor.fetchone()
        way.go(loaded())
        changed_rows = [row for row in objects.all() if before.get(row.pk) != (row.user_id, row.read_at)]
        assert all(row.changed_at > began for row in changed_rows), way.name
        raise Undone

    for way in WAYS:
        with pytest.raises(Undone):
            undone(way)


def test_what_others_did_meanwhile_is_not_counted_twice(rows: Rows) -> None:
    """There are two instances of one row: each save counts by what the row was, not by what its instance knew."""
    stale = objects.get(pk=rows.a.pk)
    save(rows.a, read_at=THEN)
    save(changed(stale, title="still unread"), "title")
    assert inbox.unread_count(1) == 2
    stale.save()
    assert inbox.unread_count(1) == 3
    rows.a.delete()
    stale.delete()
    assert inbox.unread_count(1) == 2
    assert_exact()


@pytest.mark.parametrize(
    "change",
    [
        lambda row: save(row, read_at=THEN),
        lambda row: save(row, "read_at", read_at=THEN),
        lambda row: objects.filter(pk=row.pk, read_at__isnull=True).update(read_at=THEN),
        lambda row: bulk_update([row], "read_at", read_at=THEN),
        lambda row: row.delete(),
        lambda row: objects.filter(pk=row.pk).delete(),
    ],
    ids=["save", "save read_at", "update", "bulk_update", "delete", "delete of a queryset"],
)
def test_a_change_waits_for_another_ones_commit_and_counts_what_is_left(
    change: Callable[[Notification], Any], rows: Rows, in_threads: InThreads, waiters: WaitersOf, eventually: Eventually
) -> None:
    """A row that is marked as read in an open transaction is counted once, whatever change comes second."""

    def one(number: int) -> None:
        if number:
            eventually(held.is_set, "the first to have the row")
            change(rows.a)
        else:
            with transaction.atomic():
                assert inbox.mark_read(1, [rows.a.pk]) == 1
                held.set()
                eventually(lambda: waiters(connection.connection), "the second to wait")

    held = Event()
    in_threads(2, one)
    assert inbox.unread_count(1) == 2
    assert_exact()


@pytest.mark.parametrize(
    "change",
    [
        lambda _: inbox.mark_all_read(1),
        lambda pks: inbox.mark_read(1, pks),
        lambda _: mine().order_by("-pk").update(read_at=THEN),
        lambda _: bulk_update(list(mine().order_by("-pk")), "read_at", read_at=THEN),
        lambda _: mine().order_by("-pk").delete(),
        lambda pks: inbox.mark_unread(1, pks),
    ],
    ids=["mark_all_read", "mark_read", "update", "bulk_update", "delete", "mark_unread"],
)
def test_all_changes_of_many_rows_lock_them_in_the_same_order(
    change: Callable[[list[int]], Any],
    in_threads: InThreads,
    waiters: WaitersOf,
    eventually: Eventually,
    other_connection: psycopg.Connection[Any],
) -> None:
    """Two that wait for the same row of many do not deadlock when they may go on."""

    def update(_: object) -> None:
        mine().update(title="other", read_at=None)

    pks = [row.pk for row in objects.bulk_create(new(read_at=read_at) for read_at in (None, THEN) * 3)]
    other_connection.execute("SELECT FROM weir_notifications_notification WHERE id = ANY (%s) FOR UPDATE", [pks[2:4]])

    def one(number: int) -> None:
        if number == 2:
            eventually(lambda: waiters(other_connection) == 2, "both to wait")
            other_connection.rollback()
        else:
            (change if number else update)(pks)

    in_threads(3, one)
    assert_exact()


@pytest.mark.parametrize("change", ["update", "delete"])
def test_a_row_that_comes_meanwhile_is_left_alone(
    change: str, monkeypatch: pytest.MonkeyPatch, in_threads: InThreads
) -> None:
    """The user is notified after the rows were chosen and locked: that row stays unread, and counts."""
    lock = querysets.NotificationQuerySet.lock

    def locked(rows: querysets.NotificationQuerySet[Notification]) -> querysets.Locked:
        found = lock(rows)
        in_threads(1, lambda _: inbox.notify(1, "news", "meanwhile"))
        return found

    inbox.notify(1, "news", "before")
    with monkeypatch.context() as patched:
        patched.setattr(querysets.NotificationQuerySet, "lock", locked)
        if change == "update":
            assert mine().update(read_at=THEN) == 1
        else:
            assert mine().delete()[0] == 1
    assert [row.title for row in objects.unread()] == ["meanwhile"]
    assert_exact()


def test_many_rows_are_changed_as_they_were_chosen() -> None:
    """More than fit a list of ids, chosen by what other rows are: changing some does not change the choice."""
    inbox.notify_many(range(1, 5_001), "news", "Hello")
    Notification.objects.update(user_id=1)
    objects.bulk_create(new(2) for _ in range(6_000))
    many = objects.unread().values("user_id").annotate(n=Count("pk")).filter(n__gt=4_999).values("user_id")
    assert objects.filter(user_id__in=many).update(read_at=THEN) == 11_000
    assert inbox.unread_counts([1, 2]) == {1: 0, 2: 0}
    assert objects.update(read_at=None, user_id=F("user_id") + 1) == 11_000
    assert inbox.unread_counts([1, 2, 3]) == {1: 0, 2: 5_000, 3: 6_000}
    assert objects.filter(user_id__in=many).delete() == (11_000, {"weir_notifications.Notification": 11_000})
    assert objects.all().delete() == (0, {})
    assert_exact(1, 2, 3)


def statements_of(change: Callable[[], object]) -> int:
    """Return in how many statements the rows are changed."""
    with CaptureQueriesContext(connection) as queries:
        change()
    return sum(query["sql"].startswith(("UPDATE", "DELETE")) for query in queries)


def test_many_rows_are_changed_a_chunk_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each in one transaction, with the totals that Django returns; together if the choice depends on other rows."""
    monkeypatch.setattr(querysets, "CHUNK", 4)
    objects.bulk_create(new(1 + n % 3, title=str(n)) for n in range(10))
    users = objects.values("user_id").annotate(n=Count("pk")).filter(n__gt=3).values("user_id")
    assert statements_of(lambda: objects.update(read_at=THEN)) == 3
    assert statements_of(lambda: objects.filter(read_at=THEN).order_by("title").update(read_at=Now())) == 3
    assert statements_of(lambda: objects.exclude(read_at=THEN).distinct().update(read_at=None)) == 3
    assert statements_of(lambda: objects.filter(user_id__in=[1, 2]).update(read_at=THEN)) == 2
    assert_exact(1, 2, 3)
    first = objects.order_by("pk").values("user_id")[:1]
    for at_once in (
        lambda: objects.filter(pk__in=objects.unread()).update(read_at=THEN),
        lambda: objects.filter(user_id__in=users).update(read_at=None),
        lambda: objects.filter(Exists(objects.filter(pk__lt=OuterRef("pk")))).update(read_at=None),
        lambda: objects.update(user_id=Subquery(first)),
        lambda: objects.update(user_id=Case(When(pk__in=objects.all(), then=F("user_id")))),
        lambda: objects.extra(where=["user_id IN (SELECT user_id FROM weir_notifications_unreadcount)"]).update(
            read_at=None
        ),
    ):
        assert statements_of(at_once) == 1
    assert_exact(1, 2, 3)
    assert objects.filter(user_id=1).delete() == (10, {"weir_notifications.Notification": 10})
    assert_exact(1, 2, 3)


def test_a_chunk_that_fails_takes_the_others_along(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is changed, and nothing counted."""

    def fail(instance: Notification, **_signal: object) -> None:
        if instance.title == "5":
            raise Undone

    monkeypatch.setattr(querysets, "CHUNK", 2)
    objects.bulk_create(new(title=str(n)) for n in range(6))
    pre_delete.connect(fail, sender=Notification)
    try:
        with pytest.raises(Undone):
            objects.all().delete()
    finally:
        pre_delete.disconnect(fail, sender=Notification)
    assert inbox.unread_count(1) == 6
    assert_exact()


@pytest.mark.parametrize(
    "change",
    [lambda row: mine().update(title=row.kind), lambda row: save(row, "title", title="other")],
    ids=["update", "save"],
)
def test_a_change_of_other_fields_costs_nothing_more(
    change: Callable[[Notification], Any], django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    """If neither user_id nor read_at is written, there is one query, and no lock."""
    row = objects.create(user_id=1, kind="news")
    with django_assert_num_queries(1):
        change(row)


@pytest.mark.parametrize("option", ["ignore_conflicts", "update_conflicts"])
def test_inserts_that_postgresql_does_not_report_are_refused(option: str) -> None:
    """They could not be counted, so nothing is written and the error says what to do instead."""
    with pytest.raises(NotSupportedError, match=rf"{option}.*use weir.notifications.inbox.notify_many"):
        objects.bulk_create([new()], **{option: True, "unique_fields": ["id"], "update_fields": ["title"]})
    with pytest.raises(NotSupportedError, match="inbox"):
        objects.bulk_create([new()], None, True)
    assert not objects.exists()


@pytest.mark.parametrize("user", [7.0, 7.9, "7 ", "7.0"])
def test_a_key_that_no_user_has_writes_nothing(user: Any) -> None:
    """Django would accept some of these as a whole number, and write a row that cannot be counted then."""
    for write in (
        new(user_id=user).save,
        lambda: objects.create(user_id=user),
        lambda: objects.bulk_create([new(user_id=user)]),
    ):
        with pytest.raises(ValueError, match=r"whole number|expected a number"):
            write()
    assert not objects.exists()


def test_what_receivers_of_signals_do_is_counted_once(rows: Rows) -> None:
    """A receiver that saves the row again, on its creation or on a change, does not make it count twice."""

    def receive(instance: Notification, **_signal: Any) -> None:
        if instance.title == "spam" and instance.read_at is None:
            save(instance, read_at=THEN)

    post_save.connect(receive, sender=Notification)
    try:
        new(title="spam").save()
        save(rows.a, title="spam")
    finally:
        post_save.disconnect(receive, sender=Notification)
    assert inbox.unread_count(1) == 2
    assert_exact()


def test_a_queryset_forgets_its_rows_when_it_changes_them(rows: Rows) -> None:
    """As Django's own does: a second look after an update or a delete shows the new rows."""
    some = mine()
    assert all(row.user_id == 1 for row in some)
    assert some.update(read_at=THEN) == 4
    assert all(row.read_at for row in some)
    some.delete()
    assert not list(some)
    assert rows.e in objects.all()


def test_mistakes_are_told_as_django_tells_them() -> None:
    """A slice and an unknown field are refused with Django's words, even if there are no rows."""
    with pytest.raises(TypeError, match="Cannot update a query once a slice has been taken"):
        objects.all()[:1].update(read_at=THEN)
    with pytest.raises(TypeError, match="Cannot use 'limit' or 'offset' with delete"):
        objects.all()[:1].delete()
    with pytest.raises(FieldDoesNotExist):
        objects.update(read_at=THEN, nothing=1)  # type: ignore[misc]  # the mistake


def test_a_receiver_that_raises_does_not_hide_what_was_written() -> None:
    """Outside a transaction the row stays, so its user's number has changed when the error is raised."""

    def fail(**_signal: Any) -> None:
        raise Undone

    post_save.connect(fail, sender=Notification)
    try:
        with pytest.raises(Undone):
            new().save()
    finally:
        post_save.disconnect(fail, sender=Notification)
    assert inbox.unread_count(1) == 1
    assert_exact()
