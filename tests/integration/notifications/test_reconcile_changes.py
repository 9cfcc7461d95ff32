"""More changes than the passes look at one by one: a whole full scan has looked at their users as well."""

from datetime import timedelta

import pytest

from tests.integration.notifications.test_reconcile_progress import slow_scan
from tests.integration.notifications.unread import MARKS, assert_exact, make_wrong, no_scan, reconciled, sql
from weir.notifications import flush, inbox, reconcile
from weir.notifications.models import Notification, Reconciliation
from weir.notifications.reconciliation import changed, drift, page
from weir.notifications.reconciliation.lease import Lease

pytestmark = [*MARKS, pytest.mark.usefixtures("reconcile_at_once")]

objects = Notification.objects


def insert_many(user_id: int, *, changes: int = 10) -> None:
    """Insert this many rows of a user by one statement, which is not counted."""
    sql(
        "INSERT INTO weir_notifications_notification (user_id, kind, title, body, url) "
        f"SELECT {user_id}, '', '', '', '' FROM generate_series(1, {changes})"
    )


def test_a_pass_scans_for_longer_while_changes_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """One statement has changed more than a pass looks at: all users are compared sooner than all changes are."""
    objects.bulk_create(Notification(user_id=user_id, kind="news") for user_id in range(1, 8))
    flush.flush_sealed()
    reconciled()
    slow_scan(monkeypatch, users=2)
    monkeypatch.setattr(changed, "SETTLED_S", 0.0)
    insert_many(1)
    with monkeypatch.context() as patched:
        patched.setattr(reconcile, "REST_S", -1.0)
        sql("UPDATE weir_notifications_unreadcount SET unread_count = 5")
        assert set(reconciled().repaired.first) == set(range(1, 8))
    for slice_ in ({1, 2}, {3, 4}):
        sql(f"UPDATE weir_notifications_unreadcount SET unread_count = 5 WHERE user_id IN ({str(slice_)[1:-1]})")
        assert set(reconciled().repaired.first) == slice_


def test_changes_from_before_a_whole_full_scan_are_looked_at_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The source of changes goes on after them, so later changes do not wait for each change of a huge statement."""
    reconciled()
    insert_many(1, changes=1_000)
    with monkeypatch.context() as patched:
        patched.setattr(page, "USERS", 2)
        patched.setattr(reconcile, "REST_S", -1.0)
        assert [reconciled().repaired.first for _ in range(2)] == [{1: 1_000}, {}]
    no_scan(monkeypatch)
    make_wrong(2)
    report = reconciled()
    assert (report.looked_at, report.repaired.first) == (1, {2: 1})
    assert_exact()


def test_changes_behind_a_full_scan_are_left_to_the_source_of_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Changes of a user whom the scan has passed already are younger than its beginning."""
    inbox.notify_many([1, 2, 3], "news", "Hello")
    flush.flush_sealed()
    reconciled()
    slow_scan(monkeypatch, users=1)
    monkeypatch.setattr(changed, "SETTLED_S", 0.0)
    with monkeypatch.context() as patched:
        patched.setattr(reconcile, "HURRIED_SCAN_S", -1.0)
        patched.setattr(reconcile, "REST_S", -1.0)
        while reconciled().looked_at:
            pass
        assert Reconciliation.objects.get().scanned_until == 1
        insert_many(3)
        make_wrong(1)
        while Reconciliation.objects.get().scanned_until:
            assert 1 not in reconciled().repaired.first
    no_scan(monkeypatch)
    assert reconciled().repaired.first == {1: 1}
    assert_exact()


def test_changes_are_not_skipped_before_all_who_differ_are_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass is killed at the end of a full scan: the next one finds the changes where they were."""
    reconciled()
    insert_many(1)
    before = Reconciliation.objects.values("changes_until", "changes_until_id", "scanned_until").get()

    def killed(_looked_at: float) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(drift, "_wait_until_apart", killed)
        with pytest.raises(KeyboardInterrupt):
            reconcile.run_pass()
    assert Reconciliation.objects.values("changes_until", "changes_until_id", "scanned_until").get() == before


@pytest.mark.parametrize(("behind", "moves"), [(timedelta(hours=1), True), (timedelta(seconds=10), False)])
def test_the_cursor_of_changes_moves_to_what_was_settled_when_a_full_scan_began(behind: timedelta, moves: bool) -> None:
    """A transaction may commit while the scan runs, 30 s after its change at most. The cursor never goes back."""
    reconciled()
    row = Reconciliation.objects.get()
    at = row.scan_began_at - behind
    Reconciliation.objects.update(changes_until=at, changes_until_id=7)
    lease = Lease.begin(row.incarnation, row.server_run, 30.0)
    assert lease
    lease.store({"scanned_until": 5})
    assert lease.cursors.changes_until == at
    lease.store({"scanned_until": None, "scan_done": True})
    for _ in range(2):
        now = Reconciliation.objects.get()
        expected = (row.scan_began_at - timedelta(seconds=30), 0) if moves else (at, 7)
        assert (now.changes_until, now.changes_until_id) == expected
        lease.keep()
