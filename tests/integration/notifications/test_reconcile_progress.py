"""Each pass goes on where the last one stopped, slice by slice and page by page, whatever comes in between."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.integration.notifications.unread import (
    MARKS,
    assert_exact,
    lost,
    make_wrong,
    no_scan,
    reconciled,
    redis_out_of_reach,
    sql,
)
from weir.notifications import counters, flush, inbox, reconcile, tasks
from weir.notifications.models import Doubt, Notification, Reconciliation
from weir.notifications.reconciliation import changed, doubts, drift, full_scan, page, repairs
from weir.notifications.reconciliation.lease import Cursors
from weir.redis_link import outages

pytestmark = [*MARKS, pytest.mark.usefixtures("reconcile_at_once")]

objects = Notification.objects


def slow_scan(monkeypatch: pytest.MonkeyPatch, *, users: int, rows: int = 500_000) -> None:
    """Make each pass scan only one slice."""
    monkeypatch.setattr(page, "USERS", users)
    monkeypatch.setattr(page, "ROWS", rows)
    monkeypatch.setattr(reconcile, "SCAN_S", -1.0)
    monkeypatch.setattr(changed, "SETTLED_S", 30.0)


def test_the_full_scan_goes_on_where_it_stopped_and_begins_anew_at_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each pass takes the next slice of all users; after the last slice, the report says how long the scan took."""
    objects.bulk_create(Notification(user_id=user_id, kind="news") for user_id in range(1, 8))
    flush.flush_sealed()
    slow_scan(monkeypatch, users=2)
    sql("UPDATE weir_notifications_unreadcount SET unread_count = 5")
    reports = [reconciled() for _ in range(4)]
    assert [set(report.repaired.first) for report in reports] == [{1, 2}, {3, 4}, {5, 6}, {7}]
    took = [report.scan_took for report in reports]
    assert took[0] == took[1] == took[2]
    assert took[3]
    assert took[3] != took[2]
    sql("UPDATE weir_notifications_unreadcount SET unread_count = 5")
    assert set(reconciled().repaired.first) == {1, 2}
    assert Reconciliation.objects.get().scanned_until == 2


@pytest.mark.parametrize("users", [1, 2, 3, 100])
@pytest.mark.parametrize("rows", [1, 3, 4, 100])
def test_slices_go_through_all_users_once(users: int, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Including those without a number, those without rows, and those who have more rows than a slice."""
    inbox.notify_many([-3, 1, 4, 4, 6, 9], "news", "Hello")
    flush.flush_sealed()
    objects.filter(user_id=6).delete()
    with lost():
        for _ in range(5):
            inbox.notify_many([4, 5], "news", "Hello")
    slow_scan(monkeypatch, users=users, rows=rows)
    pages = list(full_scan.pages())
    assert sum(part.compared for part in pages) == 6
    assert max(part.compared for part in pages) <= users
    looked_at = [user_id for part in pages for user_id in sorted(part.users)]
    assert looked_at == ([4, 5, 6] if rows > 1 else [-3, 1, 4, 5, 6, 9]), "who may have more rows is looked at, too"
    reached: list[Any] = [part.reached["scanned_until"] for part in pages]
    *ends, last = reached
    assert ends == sorted(set(ends))
    assert last is None


def test_many_changes_are_taken_in_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them in one pass, and none is looked at twice."""
    no_scan(monkeypatch)
    reconciled()
    monkeypatch.setattr(page, "USERS", 2)
    make_wrong(1, 2, 3)
    make_wrong(3)
    make_wrong(4)
    make_wrong(5)
    assert reconciled().repaired.first == {1: 1, 2: 1, 3: 2, 4: 1, 5: 1}
    assert reconciled().looked_at == 0


@pytest.mark.parametrize("by_one_statement", [True, False])
def test_more_changes_than_a_pass_has_time_for_are_left_to_the_next(
    by_one_statement: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next pass goes on after the last change, even if all of them have the time of one statement."""
    no_scan(monkeypatch)
    reconciled()
    monkeypatch.setattr(page, "USERS", 2)
    monkeypatch.setattr(reconcile, "REST_S", -1.0)
    if by_one_statement:
        sql(
            "INSERT INTO weir_notifications_notification (user_id, kind, title, body, url) "
            "SELECT user_id, '', '', '', '' FROM generate_series(1, 5) AS user_id"
        )
    else:
        for user_id in range(1, 6):
            make_wrong(user_id)
    assert [set(reconciled().repaired.first) for _ in range(4)] == [{1, 2}, {3, 4}, {5}, set()]
    assert_exact()


def test_what_changes_while_a_pass_runs_is_left_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """Users who are notified all the time do not keep a pass from ending."""
    no_scan(monkeypatch)
    reconciled()
    inbox.notify(1, "news", "Hello")
    look = drift.look

    def busy(*arguments: Any, **options: Any) -> drift.DriftLook:
        inbox.notify(1, "news", "Hello")
        return look(*arguments, **options)

    with monkeypatch.context() as patched:
        patched.setattr(drift, "look", busy)
        assert reconciled().looked_at == 1
    assert reconciled().looked_at == 1


def test_doubts_that_a_pass_has_no_time_for_are_left_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest come first; one that is noted again is behind the others."""
    no_scan(monkeypatch)
    monkeypatch.setattr(page, "USERS", 2)
    monkeypatch.setattr(reconcile, "REST_S", -1.0)
    for user_id in (5, 4, 3, 2, 1, 5):
        doubts.NOTE_DOUBTS(users=[user_id])
    left = []
    for _ in range(3):
        reconciled()
        left.append(set(Doubt.objects.values_list("pk", flat=True)))
    assert left == [{1, 2, 5}, {5}, set()]


def test_users_with_many_unread_rows_are_pages_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """By their stored numbers: this bounds what a page counts, for doubts and for changes."""
    for _ in range(4):
        inbox.notify_many([1, 2, 3], "news", "Hello")
    inbox.notify_many([4, 5], "news", "Hello")
    flush.flush_sealed()
    doubts.NOTE_DOUBTS(users=[1, 2, 3, 4, 5])
    monkeypatch.setattr(page, "ROWS", 5)
    cursors = Cursors(changes_until=datetime(2000, 1, 1, tzinfo=UTC), changes_until_id=0, scanned_until=None)
    for pages in (doubts.pages(), changed.pages(cursors)):
        found = [set(part.users) for part in pages]
        assert set().union(*found) == {1, 2, 3, 4, 5}
        assert all(len(users & {1, 2, 3}) <= 1 for users in found)


def test_what_is_judged_is_not_looked_at_again_after_a_pass_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """How far it has come is stored page by page; users who differ are looked at again if they were not judged yet."""
    no_scan(monkeypatch)
    reconciled()
    rows = [inbox.notify(user_id, "news", "Hello") for user_id in (1, 2)]
    make_wrong(3)
    inbox.notify(4, "news", "Hello")
    monkeypatch.setattr(page, "USERS", 1)

    def killed(_looked_at: float) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(drift, "_wait_until_apart", killed)
        with pytest.raises(KeyboardInterrupt):
            reconcile.run_pass()
    assert Reconciliation.objects.get().changes_until_id == rows[-1].pk
    assert reconcile.run_pass() is None, "its lease has not run out"
    sql("UPDATE weir_notifications_reconciliation SET lease_until = now()")
    again = reconciled()
    assert (again.looked_at, again.repaired.first) == (2, {3: 1})
    assert_exact()


def test_those_who_differ_are_judged_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three more looks serve the users of many pages together, but not more users than memory should hold."""
    reconciled()
    pauses: list[float] = []
    monkeypatch.setattr(drift, "_wait_until_apart", pauses.append)
    monkeypatch.setattr(page, "USERS", 1)
    make_wrong(1, 2, 3, 4, 5)
    with capture_logs() as entries:
        assert reconciled().repaired.users == 5
    assert [entry["users"] for entry in entries] == [5]
    assert len(pauses) == drift.LOOKS - 1
    monkeypatch.setattr(repairs, "MOST", 2)
    make_wrong(1, 2, 3, 4, 5)
    with capture_logs() as entries:
        assert reconciled().repaired.users == 5
    assert [entry["users"] for entry in entries] == [2, 2, 1]
    assert_exact()


def test_a_pass_that_fails_is_done_again_by_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """Users whom it could not judge are looked at again; it gives its lease back."""
    inbox.notify_many([1, 2], "news", "Hello")
    flush.flush_sealed()
    sql("UPDATE weir_notifications_unreadcount SET unread_count = 5 WHERE user_id = 2")
    make_wrong(1)

    def away(_users: object) -> None:
        raise counters.RedisUnreachable("gone")

    with monkeypatch.context() as patched:
        patched.setattr(counters, "peek", away)
        with pytest.raises(counters.RedisUnreachable, match="gone"):
            reconcile.run_pass()
    assert reconciled().repaired.first == {1: 1, 2: -4}
    assert_exact()


def test_the_periodic_tasks_wait_an_outage_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Redis they do nothing, say so once a minute, and leave the work to a later tick."""
    monkeypatch.setattr(outages, "_quiet_until", {})
    make_wrong(1)
    with redis_out_of_reach(tmp_path), capture_logs() as entries:
        for _ in range(3):
            tasks.flush_unread()
            tasks.reconcile_unread()
    assert [entry["event"] for entry in entries] == ["unread_not_flushed", "unread_not_reconciled"]
    tasks.reconcile_unread()
    tasks.flush_unread()
    assert_exact(1)
