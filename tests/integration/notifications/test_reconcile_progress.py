"""Each pass goes on where the last one stopped, slice by slice and page by page, whatever comes in between."""

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from notifications import counters, flush, inbox, outages, reconcile
from notifications.models import Notification, Reconciliation
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
from workers.unread import tasks

pytestmark = [*MARKS, pytest.mark.usefixtures("reconcile_at_once")]

objects = Notification.objects


def slow_scan(monkeypatch: pytest.MonkeyPatch, *, users: int, rows: int = 500_000) -> None:
    """Have each pass scan only one slice."""
    monkeypatch.setattr(reconcile, "AT_ONCE", users)
    monkeypatch.setattr(reconcile, "ROWS_AT_ONCE", rows)
    monkeypatch.setattr(reconcile, "SCAN_S", -1.0)
    monkeypatch.setattr(reconcile, "SETTLED_S", 30.0)


def test_the_full_scan_goes_on_where_it_stopped_and_begins_anew_at_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each pass takes the next slice of all users; after the last slice, the report says how long the scan took."""
    objects.bulk_create(Notification(user_id=user_id, kind="news") for user_id in range(1, 8))
    flush.flush_sealed()
    slow_scan(monkeypatch, users=2)
    sql("UPDATE notifications_unreadcount SET unread_count = 5")
    reports = [reconciled() for _ in range(4)]
    assert [set(report.repaired) for report in reports] == [{1, 2}, {3, 4}, {5, 6}, {7}]
    took = [report.scan_took for report in reports]
    assert took[0] == took[1] == took[2]
    assert took[3]
    assert took[3] != took[2]
    sql("UPDATE notifications_unreadcount SET unread_count = 5")
    assert set(reconciled().repaired) == {1, 2}
    assert Reconciliation.objects.get().scanned_until == 2


@pytest.mark.parametrize("users", [1, 2, 3, 100])
@pytest.mark.parametrize("rows", [1, 3, 4, 100])
def test_slices_go_through_all_users_once(users: int, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those without a number, those without rows, and those who have more rows than a slice."""
    inbox.notify_many([-3, 1, 4, 4, 6, 9], "news", "Hello")
    flush.flush_sealed()
    objects.filter(user_id=6).delete()
    with lost():
        for _ in range(5):
            inbox.notify_many([4, 5], "news", "Hello")
    slow_scan(monkeypatch, users=users, rows=rows)
    slices = list(reconcile._slices(reconcile.FIRST_USER))
    assert sum(part.users for part in slices) == 6
    assert [user_id for part in slices for user_id in sorted(part.differing)] == [4, 5, 6]
    ends = [part.last_user for part in slices]
    assert ends == sorted(set(ends))
    assert ends[-1] == reconcile.LAST_USER


def test_many_changes_are_taken_in_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them in one pass; those of one moment stay together, and none is looked at twice."""
    no_scan(monkeypatch)
    reconciled()
    slow_scan(monkeypatch, users=2)
    monkeypatch.setattr(reconcile, "SETTLED_S", 0.0)
    make_wrong(1, 2, 3)
    make_wrong(3)
    make_wrong(4)
    make_wrong(5)
    assert reconciled().repaired == {1: 1, 2: 1, 3: 2, 4: 1, 5: 1}
    assert reconciled().looked_at == 0


def test_more_changes_than_a_pass_takes_are_left_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass ends before its lease does, and the next goes on behind the changes that it took."""
    no_scan(monkeypatch)
    reconciled()
    monkeypatch.setattr(reconcile, "AT_ONCE", 1)
    monkeypatch.setattr(reconcile, "MOST_USERS", 2)
    for user_id in range(1, 6):
        make_wrong(user_id)
    assert [set(reconciled().repaired) for _ in range(4)] == [{1, 2}, {3, 4}, {5}, set()]
    assert_exact()


def test_a_pass_that_fails_is_done_again_by_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it looked at without an answer is looked at again once its lease has run out."""
    inbox.notify_many([1, 2], "news", "Hello")
    flush.flush_sealed()
    sql("UPDATE notifications_unreadcount SET unread_count = 5 WHERE user_id = 2")
    make_wrong(1)

    def away(_users: object) -> None:
        raise counters.Unreachable("gone")

    with monkeypatch.context() as patched:
        patched.setattr(counters, "peek", away)
        with pytest.raises(counters.Unreachable, match="gone"):
            reconcile.run_pass()
    assert reconcile.run_pass() is None
    sql("UPDATE notifications_reconciliation SET lease_until = now()")
    assert reconciled().repaired == {1: 1, 2: -4}
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
