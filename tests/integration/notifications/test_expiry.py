"""Notifications that expire: deleted by the scheduled task, with their users' numbers."""

from datetime import datetime, timedelta
from typing import Any

import psycopg
import pytest
from django.utils import timezone

from tests.integration.notifications.unread import MARKS, assert_exact, reconciled
from weir.notifications import flush, inbox
from weir.notifications.inbox import read_marks
from weir.notifications.models import Notification
from weir.notifications.removal import expiry

pytestmark = MARKS


def in_s(seconds: float) -> datetime:
    return timezone.now() + timedelta(seconds=seconds)


def tell(user_id: int, seconds: float | None) -> Notification:
    return inbox.notify(user_id, "sale", "Today only", expires_at=None if seconds is None else in_s(seconds))


def test_what_has_expired_is_deleted_and_no_longer_counted() -> None:
    """Unread ones change the number, read ones do not; others stay. A past time may be written, too."""
    read, *_ = tell(1, -1), tell(1, -1), tell(1, 60), tell(1, None), tell(2, -1)
    inbox.mark_read(1, [read.pk])
    inbox.notify_many([2, 3], "sale", "Today only", expires_at=in_s(-1))
    flush.flush_sealed()
    assert inbox.unread_counts([1, 2, 3]) == {1: 3, 2: 2, 3: 1}
    assert expiry.delete_expired() == 5
    assert inbox.unread_counts([1, 2, 3]) == {1: 2, 2: 0, 3: 0}
    assert len(inbox.page(1)) == 2
    assert_exact(1, 2, 3)
    assert expiry.delete_expired() == 0


def test_many_go_in_batches_and_a_run_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows for which a run has no time are left to the next; the numbers are right in between."""
    monkeypatch.setattr(expiry, "BATCH", 2)
    inbox.notify_many(range(1, 6), "sale", "Today only", expires_at=in_s(-1))
    assert expiry.delete_expired(within_s=0.0) == 2
    assert sum(inbox.unread_counts(range(1, 6)).values()) == 3
    assert_exact(*range(1, 6))
    assert expiry.delete_expired() == 3
    assert_exact(*range(1, 6))


def test_rows_that_others_hold_are_left_to_the_next_run(other_connection: psycopg.Connection[Any]) -> None:
    """A row that is just being changed does not hold up the others; one that was given more time stays."""
    held, _ = tell(1, -1), tell(1, -1)
    other_connection.execute("SELECT FROM weir_notifications_notification WHERE id = %s FOR UPDATE", [held.pk])
    assert expiry.delete_expired() == 1
    other_connection.rollback()
    assert [row.pk for row in inbox.page(1)] == [held.pk]
    Notification.objects.update(expires_at=in_s(60))
    assert expiry.delete_expired() == 0
    assert_exact(1)


def test_what_a_read_mark_covers_expires_as_what_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not in the shown number, but still in the stored one."""
    monkeypatch.setattr(inbox.writing, "MOST_MARKED", 1)
    covered = [tell(1, 60), tell(1, 60), tell(1, None)]
    flush.flush_sealed()
    assert inbox.mark_all_read(1) == 3
    tell(1, -1)
    tell(1, None)
    Notification.objects.filter(pk__in=[row.pk for row in covered[:2]]).update(expires_at=in_s(-1))
    assert inbox.unread_count(1) == 2
    assert expiry.delete_expired() == 3
    assert inbox.unread_count(1) == 1
    assert read_marks.settle() == 1
    assert reconciled().repaired.users == 0
    assert_exact(1)


def test_a_time_without_a_zone_is_refused() -> None:
    """It would be another moment in another zone."""
    naive = datetime(2030, 1, 1)  # noqa: DTZ001  the mistake
    for told in (
        lambda: inbox.notify(1, "sale", "Today only", expires_at=naive),
        lambda: inbox.notify_many([1], "sale", "Today only", expires_at=naive),
    ):
        with pytest.raises(ValueError, match=r"^expires_at must have a time zone, but is datetime"):
            told()
    assert not Notification.objects.exists()


def test_a_time_that_no_calendar_has_is_refused() -> None:
    """In UTC it would be in a year that Python cannot read back, so that no page could be shown."""
    for moment in (
        datetime.max.replace(tzinfo=timezone.get_fixed_timezone(-300)),
        datetime.min.replace(tzinfo=timezone.get_fixed_timezone(300)),
    ):
        with pytest.raises(ValueError, match=r"^expires_at must be in the years 1 to 9999 of UTC, but is datetime"):
            inbox.notify(1, "sale", "Today only", expires_at=moment)
    assert not Notification.objects.exists()
