"""`mark_all_read` of many notifications: one row says that they are read, exactly, whatever others do meanwhile."""

import threading
from collections.abc import Callable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.models import Value
from django.db.models.functions import Now

from tests.integration.conftest import InThreads
from tests.integration.notifications.unread import MARKS, assert_exact, lost, reconciled, sql, unread_rows
from weir.notifications import flush, inbox
from weir.notifications.inbox import read_marks
from weir.notifications.models import Doubt, Notification, ReadMark
from weir.postgres.timeline import gate

pytestmark = MARKS
objects = Notification.objects


@pytest.fixture(autouse=True)
def _few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inbox.writing, "MOST_MARKED", 2)
    reconciled()


def told(user: int, times: int) -> list[int]:
    return [inbox.notify(user, "news", f"No. {number}").pk for number in range(times)]


def settled() -> None:
    """Settle the marks; then the numbers are those of the rows, from the counters."""
    read_marks.settle()
    assert not ReadMark.objects.exists()
    reconciled()
    assert_exact()


def test_few_are_changed_one_by_one() -> None:
    """No mark is needed."""
    told(1, 2)
    assert inbox.mark_all_read(1) == 2
    assert not ReadMark.objects.exists()
    assert inbox.unread_count(1) == 0
    assert_exact()


def test_many_are_read_at_once() -> None:
    """They are so in the number, in pages and in querysets; other users' and later ones stay unread."""
    ids = told(1, 5)
    told(2, 3)
    assert inbox.mark_all_read(1) == 5
    assert objects.filter(user_id=1, read_at=None).count() == 5
    assert inbox.unread_counts([1, 2]) == {1: 0, 2: 3}
    assert [row.pk for row in inbox.page(1, unread_only=True)] == []
    assert all(row.read_at for row in inbox.page(1))
    assert [row.pk for row in inbox.page(1)] == ids[::-1]
    assert not objects.filter(user_id=1).unread().exists()
    new = inbox.notify(1, "news", "new").pk
    assert inbox.unread_count(1) == 1
    assert [row.pk for row in inbox.page(1, unread_only=True)] == [new]
    assert [row.pk for row in objects.filter(user_id=1).unread()] == [new]
    settled()
    assert inbox.unread_counts([1, 2]) == {1: 1, 2: 3}
    assert unread_rows() == {1: 1, 2: 3}


def test_what_commits_later_stays_unread() -> None:
    """Even if its id is lower: it was written, but not yet committed, when all was marked as read."""
    old = told(1, 3)

    def tell(written: threading.Event, go_on: threading.Event) -> None:
        with transaction.atomic():
            early.append(inbox.notify(1, "news", "written first").pk)
            written.set()
            assert go_on.wait(30)
        connection.close()

    early: list[int] = []
    written, go_on = threading.Event(), threading.Event()
    teller = threading.Thread(target=tell, args=(written, go_on))
    teller.start()
    assert written.wait(30)
    late = told(1, 1)
    assert early < late
    assert inbox.mark_all_read(1) == 4
    go_on.set()
    teller.join()
    assert inbox.unread_count(1) == 1
    assert [row.pk for row in inbox.page(1, unread_only=True)] == early
    settled()
    assert [row.pk for row in objects.filter(read_at=None)] == early
    assert {*objects.exclude(read_at=None).values_list("pk", flat=True)} == {*old, *late}


def test_what_is_marked_as_unread_again_stays_unread() -> None:
    """Before it was settled and after it; only rows that had a `read_at` change the counters."""
    ids = told(1, 5)
    inbox.mark_all_read(1)
    assert inbox.mark_unread(1, ids[:2]) == 2
    assert inbox.mark_unread(1, ids[:2]) == 0
    assert inbox.unread_count(1) == 2
    settled()
    assert inbox.mark_unread(1, ids[1:3]) == 1
    assert unread_rows() == {1: 3}
    assert_exact()


def test_what_is_covered_is_not_read_once_more() -> None:
    """`mark_read` counts what was unread before."""
    ids = told(1, 4)
    inbox.mark_all_read(1)
    new = told(1, 1)
    assert inbox.mark_read(1, ids + new) == 1
    assert inbox.unread_count(1) == 0
    settled()


def test_a_second_mark_covers_what_the_first_did() -> None:
    """And the notifications that came in between."""
    told(1, 4)
    inbox.mark_all_read(1)
    told(1, 4)
    assert inbox.mark_all_read(1) == 4
    assert inbox.unread_count(1) == 0
    told(1, 2)
    assert inbox.mark_all_read(1) == 2
    assert inbox.unread_count(1) == 0
    settled()
    assert unread_rows() == {1: 0}


def test_what_the_own_transaction_wrote_before_is_read_and_what_it_writes_later_is_not() -> None:
    """A rolled-back mark does not count, nor do its rows."""
    told(1, 3)
    with transaction.atomic():
        told(1, 2)
        inbox.mark_all_read(1)
        later = told(1, 1)
        again = objects.filter(user_id=1).earliest("pk").pk
        assert inbox.mark_unread(1, [again]) == 1
    assert inbox.unread_count(1) == 2
    with transaction.atomic():
        told(1, 4)
        inbox.mark_all_read(1)
        transaction.set_rollback(True)
    assert inbox.unread_count(1) == 2
    settled()
    assert {row.pk for row in objects.filter(read_at=None)} == {again, *later}


def test_a_later_transaction_that_ends_first_does_not_make_the_own_one_seen(in_threads: InThreads) -> None:
    """PostgreSQL's snapshots list only other transactions as not ended: a mark names its own transaction."""
    ids = told(1, 3)
    with transaction.atomic():
        told(1, 1)
        in_threads(1, lambda _thread: told(2, 1))
        inbox.mark_all_read(1)
        assert inbox.mark_unread(1, ids[:1]) == 1
    assert inbox.unread_count(1) == 1
    settled()
    assert unread_rows() == {1: 1, 2: 1}


def test_rows_of_another_cluster_are_read_too() -> None:
    """They have higher transaction ids than this cluster has reached, and an old mark that covers by them."""
    told(1, 5)
    sql("UPDATE weir_notifications_notification SET changed_xid = '900000000000'")
    assert inbox.mark_all_read(1) == 5
    assert inbox.unread_count(1) == 0
    settled()
    told(1, 5)
    inbox.mark_all_read(1)
    sql("UPDATE weir_notifications_readmark SET snapshot = '900000000000:900000000000:'")
    new = told(1, 1)
    for _ in ("before it is settled", "after"):
        assert inbox.unread_count(1) == 1
        assert inbox.unread_by_kind(1) == {"news": 1}
        assert [row.pk for row in inbox.page(1, unread_only=True)] == new
        read_marks.settle()
        reconciled()


def test_a_mark_of_another_cluster_hides_nothing_from_marking_all() -> None:
    """Neither from the one statement that marks few nor from a mark for many."""
    told(1, 5)
    for number in (1, 4):
        inbox.mark_all_read(1)
        sql("UPDATE weir_notifications_readmark SET snapshot = '900000000000:900000000000:'")
        told(1, number)
        assert inbox.mark_all_read(1) == number
        assert inbox.unread_count(1) == 0
    settled()
    assert unread_rows() == {1: 0}


def test_a_copy_is_adopted_with_nothing_left_of_the_other_cluster() -> None:
    """What was read stays read, no mark is left, and a new mark finds no row to change one by one."""
    covered, unread = told(1, 5), told(2, 3)
    sql("UPDATE weir_notifications_notification SET changed_xid = '900000000000'")
    inbox.mark_all_read(1)
    sql("UPDATE weir_notifications_readmark SET snapshot = '900000000001:900000000001:'")
    sql("UPDATE weir_notifications_notification SET read_at = NULL, changed_xid = '900000000000'")
    read_marks.adopt(unread[-1] + 1)
    assert not ReadMark.objects.exists()
    assert unread_rows() == {1: 0, 2: 3}
    assert inbox.mark_unread(1, covered[:1]) == 1
    assert inbox.mark_all_read(2) == 3
    assert objects.filter(pk__in=unread, read_at=None).count() == 3
    reconciled()
    assert inbox.unread_counts([1, 2]) == {1: 1, 2: 0}


def test_a_copy_is_adopted_while_the_lease_is_renewed(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many marks there are, some without rows, and however many notifications there are."""
    monkeypatch.setattr(read_marks, "MARKS_AT_ONCE", 2)
    monkeypatch.setattr(read_marks, "BATCH", 2)
    for user in range(1, 6):
        told(user, 3)
        inbox.mark_all_read(user)
    reconciled()
    Notification.objects.filter(user_id__lt=5).update(read_at=Now())
    renewals: list[None] = []
    monkeypatch.setattr(gate, "renew", lambda: renewals.append(None))
    read_marks.adopt(Notification.objects.latest("id").pk + 1)
    assert not ReadMark.objects.exists()
    assert len(renewals) > Notification.objects.count() / 2


def test_what_a_copy_has_written_itself_is_left_alone() -> None:
    """A notification that came after the mark is not covered by it."""
    told(1, 5)
    inbox.mark_all_read(1)
    [new] = told(1, 1)
    read_marks.adopt(new)
    assert inbox.unread_count(1) == 1
    assert [row.pk for row in inbox.page(1, unread_only=True)] == [new]


def test_a_page_of_unread_ones_is_right_where_the_mark_goes_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mark is settled before the page is read."""
    told(1, 5)
    inbox.mark_all_read(1)
    new = told(1, 2)
    find = read_marks.newest_uncovered

    def late(*parameters: Any) -> list[int]:
        read_marks.settle()
        return find(*parameters)

    monkeypatch.setattr(read_marks, "newest_uncovered", late)
    assert [row.pk for row in inbox.page(1, unread_only=True)] == new[::-1]


@pytest.mark.parametrize("statement", [2, 3])
@pytest.mark.parametrize("change", [inbox.mark_all_read, lambda user: inbox.mark_read(user, newest(user, 2))])
@pytest.mark.parametrize("marked", [False, True])
def test_a_page_of_unread_ones_has_none_that_was_read_meanwhile(
    marked: bool, change: Callable[[int], int], statement: int
) -> None:
    """Read by a mark or one by one, after the page's first statement: those that are still unread come instead."""
    ids = told(1, 7)
    if marked:
        inbox.mark_all_read(1)
        inbox.mark_unread(1, ids[:3])
    statements = iter(range(1, 100))

    def before(execute: Any, *query: Any) -> Any:
        if next(statements) == statement:
            change(1)
        return execute(*query)

    with connection.execute_wrapper(before):
        shown = inbox.page(1, unread_only=True, limit=2)
    assert not [row for row in shown if row.read_at]
    assert next(statements) <= statement or [row.pk for row in shown] == newest(1, 2)


def newest(user: int, number: int) -> list[int]:
    return list(objects.filter(user_id=user).unread().order_by("-pk").values_list("pk", flat=True)[:number])


def test_saving_a_covered_row_leaves_it_read_and_setting_read_at_decides_anew() -> None:
    """Changes by an application's use of the ORM count as always."""
    ids = told(1, 4)
    inbox.mark_all_read(1)
    row = objects.get(pk=ids[0])
    row.title = "edited"
    row.save()
    assert inbox.unread_count(1) == 0
    objects.filter(pk=ids[1]).update(read_at=None)
    assert inbox.unread_count(1) == 1
    objects.filter(pk=ids[2]).update(read_at=datetime(2026, 1, 1, tzinfo=UTC))
    objects.filter(pk=ids[3]).delete()
    assert inbox.unread_count(1) == 1
    settled()
    assert unread_rows() == {1: 1}


@pytest.mark.parametrize("fields", [None, ["read_at"], ["changed_xid", "read_at"]])
def test_an_instance_that_was_loaded_before_does_not_take_back_what_is_unread(fields: list[str] | None) -> None:
    """It has the transaction id from before the mark: saving it does not write that id."""
    ids = told(1, 5)
    row = objects.get(pk=ids[0])
    inbox.mark_all_read(1)
    inbox.mark_unread(1, ids[:1])
    row.save(update_fields=fields)
    assert inbox.unread_count(1) == 1
    settled()
    assert unread_rows() == {1: 1}


def by_update(row: Notification) -> None:
    objects.filter(pk=row.pk).update(user_id=2)


def by_bulk_update(row: Notification) -> None:
    row.user_id = 2
    objects.bulk_update([row], ["user_id"])


def by_save(row: Notification, fields: list[str] | None = None) -> None:
    row.user_id = 2
    row.save(update_fields=fields)
    row.save()


def by_computing(row: Notification) -> None:
    row.user_id = Value(1) + 1
    row.save()


@pytest.mark.parametrize(
    "move", [by_update, by_bulk_update, by_save, lambda row: by_save(row, ["user_id"]), by_computing]
)
def test_a_covered_row_that_gets_another_owner_stays_read(move: Callable[[Notification], None]) -> None:
    """As readers saw it, however it is moved; a row that is not covered stays unread."""
    told(1, 4)
    inbox.mark_all_read(1)
    told(1, 1)
    for row in (objects.earliest("pk"), objects.latest("pk")):
        move(row)
    assert inbox.unread_counts([1, 2]) == {1: 0, 2: 1}
    assert objects.filter(user_id=2, read_at=None).count() == 1
    settled()
    assert unread_rows() == {1: 0, 2: 1}


def test_a_lost_delta_of_settling_is_repaired() -> None:
    """If the process dies between COMMIT and sending, the user is a doubt once the mark is gone."""
    told(1, 4)
    flush.flush_sealed()
    inbox.mark_all_read(1)
    with lost():
        read_marks.settle()
    assert [doubt.user_id for doubt in Doubt.objects.all()] == [1]
    assert inbox.unread_count(1) == 0
    assert reconciled().repaired.first == {1: -4}
    assert_exact()


def test_a_row_that_is_locked_is_settled_later() -> None:
    """Settling does not wait for locks, and the mark stays until all its rows have their `read_at`."""
    ids = told(1, 4)
    inbox.mark_all_read(1)
    locked, go_on = threading.Event(), threading.Event()

    def lock() -> None:
        with transaction.atomic():
            objects.select_for_update().get(pk=ids[0])
            locked.set()
            assert go_on.wait(30)
        connection.close()

    locker = threading.Thread(target=lock)
    locker.start()
    assert locked.wait(30)
    assert read_marks.settle() == 3
    assert ReadMark.objects.exists()
    assert inbox.unread_count(1) == 0
    go_on.set()
    locker.join()
    settled()


def test_settling_stops_in_time_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch at a time."""
    monkeypatch.setattr(read_marks, "BATCH", 2)
    told(1, 5)
    inbox.mark_all_read(1)
    clock = iter(range(100))
    monkeypatch.setattr(read_marks, "time", SimpleNamespace(monotonic=lambda: float(next(clock))))
    assert read_marks.settle(2.5) == 4
    monkeypatch.undo()
    assert inbox.unread_count(1) == 0
    settled()
