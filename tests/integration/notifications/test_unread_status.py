"""What operators see of unread numbers is right, and found by indexes, however many users there are."""

import json
import threading
from io import StringIO
from typing import Any
from uuid import UUID

import psycopg
import pytest
from django.core.management import call_command
from django.db import connection

from tests.integration.conftest import Eventually, WaitersOf, database_now
from tests.integration.plans import scanned
from weir.notifications import flush, inbox, reconcile, reports
from weir.notifications.models import Doubt, Reconciliation, Repair, UnreadCount
from weir.notifications.reconciliation import drift
from weir.notifications.removal import retention

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("reconcile_at_once", "valkey")]


def make_wrong(*users: int, by: int = 1) -> None:
    """Store numbers that differ from the rows by this."""
    inbox.notify_many(list(users), "news", "Hello")
    flush.flush_sealed()
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE weir_notifications_unreadcount SET unread_count = unread_count - %s WHERE user_id = ANY(%s)",
            [by, list(users)],
        )


def test_before_the_first_pass_nothing_is_known_of_it() -> None:
    """Trust is neither yes nor no."""
    Reconciliation.objects.all().delete()
    seen = reports.unread_status()
    assert (seen.trusted, seen.scan_share, seen.scan_ended_at, seen.repaired_users) == (None, None, None, 0)
    assert (seen.doubts, seen.oldest_doubt_s, list(seen.repairs)) == (0, None, [])


def test_each_batch_that_was_repaired_is_noted_with_its_drift() -> None:
    """By the transaction that repaired it; the total of users only grows, and the newest repair comes first."""
    reconcile.run_pass()
    make_wrong(1, 2, by=3)
    reconcile.run_pass()
    make_wrong(1, by=-2)
    reconcile.run_pass()
    seen = reports.unread_status()
    assert [(repair.users, repair.drift) for repair in seen.repairs] == [(1, 2), (2, 6)]
    assert seen.repaired_users == 3
    assert seen.trusted is True
    assert seen.scan_ended_at is not None
    assert seen.scan_ended_at > seen.repairs[0].repaired_at
    assert (seen.scan_share, seen.doubts) == (0.0, 0)
    assert seen.scan_took_s is not None
    assert seen.flushed_s is not None


def test_numbers_that_were_missing_are_noted_and_what_was_not_repaired_is_not() -> None:
    """A repair that finds the numbers changed repairs no user."""
    reconcile.run_pass()
    make_wrong(1, 2)
    UnreadCount.objects.filter(pk=2).delete()
    drifts = list(drift.look([1, 2]).differing.values())
    assert drift.repair(drifts) == {1, 2}
    assert list(Repair.objects.order_by("pk").values_list("users", "drift")) == [(1, 1), (1, 1)]
    assert drift.repair(drifts) == set()
    assert Repair.objects.count() == 2
    assert Reconciliation.objects.get().repaired_users == 2


def test_two_repairs_at_once_are_both_counted(
    other_connection: psycopg.Connection[Any], waiters: WaitersOf, eventually: Eventually
) -> None:
    """One waits for the other at the one row of reconciliation, and adds to what it then finds."""
    reconcile.run_pass()
    make_wrong(1)
    drifts = list(drift.look([1]).differing.values())
    other_connection.execute("UPDATE weir_notifications_reconciliation SET repaired_users = repaired_users + 5")

    def repair() -> None:
        drift.repair(drifts)
        connection.close()

    thread = threading.Thread(target=repair)
    thread.start()
    try:
        eventually(lambda: waiters(other_connection) == 1, "the repair waits")
    finally:
        other_connection.commit()
        thread.join()
    assert reports.unread_status().repaired_users == 6


def test_only_the_newest_repairs_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """The purge of notifications deletes the others, in batches."""
    monkeypatch.setattr(retention, "KEPT_REPAIRS", 3)
    monkeypatch.setattr(retention, "BATCH", 2)
    now = database_now()
    Repair.objects.bulk_create(Repair(repaired_at=now, users=number, drift=1) for number in range(1, 9))
    retention.purge()
    assert [repair.users for repair in reports.unread_status().repairs] == [8, 7, 6]


def test_doubts_are_bounded_and_the_oldest_tells_its_age(monkeypatch: pytest.MonkeyPatch) -> None:
    """One more than the bound means more."""
    monkeypatch.setattr(reports, "MOST", 2)
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO weir_notifications_doubt "
            "SELECT n, now() - n * interval '1 minute' FROM generate_series(1, 5) AS n"
        )
    seen = reports.unread_status()
    assert seen.doubts == 3
    assert seen.oldest_doubt_s is not None
    assert 300 <= seen.oldest_doubt_s < 310


@pytest.mark.parametrize(
    ("until", "first", "last", "share"),
    [
        (None, 1, 101, 0.0),
        (51, 1, 101, 0.5),
        (500, 1, 101, 1.0),
        (7, 7, 7, 1.0),
        (5, None, None, None),
        ("b", "a", "c", None),
        (UUID(int=5), UUID(int=0), UUID(int=10), 0.5),
    ],
)
def test_the_place_of_the_full_scan_is_told_by_keys_that_are_numbers(
    until: Any, first: Any, last: Any, share: float | None
) -> None:
    """UUIDs are numbers, too; texts are not."""
    assert reports.scan_share(until, first, last) == share


def test_no_table_is_read_from_end_to_end() -> None:
    """Whatever the statistics."""
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO weir_notifications_unreadcount SELECT n, 0, 0 FROM generate_series(1, 20000) AS n")
        cursor.execute("INSERT INTO weir_notifications_repair (repaired_at, users, drift) "
                       "SELECT now(), 1, 1 FROM generate_series(1, 2000)")  # fmt: skip
        cursor.execute("SET enable_seqscan = off")
        try:
            parameters: dict[str, object] = {"most": 10}
            assert scanned("weir.notifications", "unread_status", parameters) <= {"weir_notifications_reconciliation"}
            assert scanned("weir.notifications", "repairs", parameters) == set()
        finally:
            cursor.execute("RESET enable_seqscan")


def test_the_command_shows_the_same_as_text_and_as_data() -> None:
    """Both forms have each number."""
    reconcile.run_pass()
    make_wrong(1, by=1_500)
    reconcile.run_pass()
    Doubt.objects.create(user_id=9, noted_at=database_now())
    output = StringIO()
    call_command("unread_status", stdout=output)
    for part in ("Redis is trusted", "1, the oldest for", "at 0%; the last one ended", "1 repaired, by 1,500 in all"):
        assert part in output.getvalue()
    output = StringIO()
    call_command("unread_status", "--json", stdout=output)
    data = json.loads(output.getvalue())
    assert data["doubts"] == 1
    assert data["repaired_users"] == 1
    assert [(repair["users"], repair["drift"]) for repair in data["repairs"]] == [(1, 1_500)]
