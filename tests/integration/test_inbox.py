"""The inbox: what web code writes and reads, and that the unread number follows."""

import pytest
from django.db import transaction

from notifications import flush, inbox
from notifications.models import Notification

pytestmark = pytest.mark.usefixtures("valkey")


@transaction.atomic
def notify_and_fail(user_id: int) -> None:
    inbox.notify(user_id, "news", "goes")
    raise LookupError


def test_the_number_follows_what_is_told_and_read() -> None:
    """Each call changes the number by the rows that it really changed; a second one changes nothing."""
    told = inbox.notify(1, "order.shipped", "Your order is on its way")
    assert inbox.unread_count(1) == 1
    assert inbox.notify_many([1, 2, 3, 3], "news", "Hello") == 3
    assert inbox.unread_counts([1, 2, 3, 4]) == {1: 2, 2: 1, 3: 1, 4: 0}
    assert inbox.mark_read(1, [told.pk]) == 1
    assert inbox.mark_read(1, [told.pk]) == 0
    assert inbox.mark_unread(1, [told.pk]) == 1
    assert inbox.unread_count(1) == 2
    assert inbox.mark_all_read(1) == 2
    assert inbox.unread_count(1) == 0


def test_a_flush_changes_no_number() -> None:
    """What was in Redis is in PostgreSQL afterwards, and what is shown stays the same."""
    inbox.notify_many([1, 2], "news", "Hello")
    assert flush.flush_sealed().users == 2
    assert inbox.unread_counts([1, 2]) == {1: 1, 2: 1}
    assert flush.flush_sealed().users == 0


def test_a_rolled_back_savepoint_is_not_counted() -> None:
    """What is rolled back takes its change along; what is around it counts, once."""
    with transaction.atomic():
        inbox.notify(1, "news", "stays")
        with pytest.raises(LookupError):
            notify_and_fail(1)
        inbox.notify(1, "news", "stays, too")
        assert inbox.unread_count(1) == 0
    assert inbox.unread_count(1) == 2
    assert Notification.objects.count() == 2
