"""The cap of unread notifications: a flush notes who is above it, and the oldest unread ones go, counted."""

from collections.abc import Mapping
from typing import Any

import psycopg
import pytest

from tests.integration.conftest import InThreads
from tests.integration.notifications.unread import MARKS, assert_exact
from weir.notifications import changes, flush, inbox
from weir.notifications.inbox import read_marks
from weir.notifications.models import Excess, Notification
from weir.notifications.removal import cap

pytestmark = MARKS


@pytest.fixture(autouse=True)
def capped(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set a cap of 3, and batches of 2."""
    settings.WEIR_UNREAD_CAP = 3
    monkeypatch.setattr(cap, "BATCH", 2)


def tell(user_id: int, number: int) -> list[int]:
    return [inbox.notify(user_id, "news", str(n)).pk for n in range(number)]


def unread(user_id: int) -> list[int]:
    return list(Notification.objects.unread().filter(user_id=user_id).order_by("pk").values_list("pk", flat=True))


def noted() -> set[int]:
    return set(Excess.objects.values_list("user_id", flat=True))


def test_the_oldest_unread_go_and_the_number_with_them() -> None:
    """Read ones stay, and so do those of users at the cap; it happens soon after the flush, and once."""
    mine, other = tell(1, 9), tell(2, 3)
    inbox.mark_read(1, mine[:2])
    assert cap.trim() == 0
    flush.flush_sealed()
    assert noted() == {1}
    assert inbox.unread_counts([1, 2]) == {1: 7, 2: 3}
    assert cap.trim() == 4
    assert inbox.unread_counts([1, 2]) == {1: 3, 2: 3}
    assert (unread(1), unread(2)) == (mine[6:], other)
    assert Notification.objects.filter(pk__in=mine[:2]).count() == 2
    assert_exact(1, 2)
    assert cap.trim() == 0
    assert not noted()


def test_as_many_as_were_deleted_may_come_before_the_next_flush() -> None:
    """The deltas add up to 0, so the flush writes no number: the note is still there."""
    tell(1, 5)
    flush.flush_sealed()
    assert cap.trim() == 2
    tell(1, 2)
    assert flush.flush_sealed().users == 0
    assert cap.trim() == 2
    assert_exact(1)


def test_the_note_stays_until_the_user_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that ends early, or is killed, leaves the rest to the next; each batch is counted."""
    tell(1, 8)
    flush.flush_sealed()
    with monkeypatch.context() as killed:
        killed.setattr(cap, "_trim_batch", lambda user, trim=cap._trim_batch: 0 * trim(user))
        cap.trim()
    assert noted() == {1}
    assert inbox.unread_count(1) == 6
    assert_exact(1)
    assert cap.trim() == 3
    assert_exact(1)
    assert cap.trim() == 0
    assert not noted()


def test_rows_that_others_hold_are_left_to_the_next_run(other_connection: psycopg.Connection[Any]) -> None:
    """Nothing newer goes in their place, and the note stays."""
    mine = tell(1, 5)
    flush.flush_sealed()
    other_connection.execute("SELECT FROM weir_notifications_notification WHERE id = %s FOR UPDATE", [mine[0]])
    assert cap.trim() == 1
    assert unread(1) == [mine[0], *mine[2:]]
    assert noted() == {1}
    other_connection.rollback()
    assert cap.trim() == 1
    assert unread(1) == mine[2:]
    assert_exact(1)


def test_a_note_that_comes_meanwhile_stays(in_threads: InThreads, monkeypatch: pytest.MonkeyPatch) -> None:
    """A flush does not wait for trimming, and the next run looks at what it notes."""
    tell(1, 4)
    flush.flush_sealed()
    record = changes.record

    def meanwhile(change: Mapping[int, int], **options: Any) -> None:
        """Notify once more and flush, after the statement has found that the user fits, and before its commit."""
        record(change, **options)
        if not any(change.values()):
            in_threads(1, lambda _: (tell(1, 2), flush.flush_sealed()))

    with monkeypatch.context() as patched:
        patched.setattr(changes, "record", meanwhile)
        patched.setattr(cap, "MOST_NOTES", 1)
        cap.trim()
    assert noted() == {1}
    cap.trim()
    assert len(unread(1)) == 3
    assert_exact(1)
    cap.trim()
    assert not noted()


def test_without_a_cap_nothing_is_noted_and_notes_are_forgotten(settings: Any) -> None:
    """Nothing is deleted, either; with a cap again a user is found by the next change."""
    tell(1, 5)
    flush.flush_sealed()
    settings.WEIR_UNREAD_CAP = 0
    assert cap.trim() == 0
    assert not noted()
    tell(1, 1)
    flush.flush_sealed()
    assert not noted()
    settings.WEIR_UNREAD_CAP = 3
    tell(1, 1)
    flush.flush_sealed()
    assert cap.trim() == 4
    assert_exact(1)


def test_what_is_read_by_a_mark_is_not_beyond_the_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Covered rows have no read_at for some seconds, and stay."""
    monkeypatch.setattr(inbox.writing, "MOST_MARKED", 2)
    tell(1, 5)
    inbox.mark_all_read(1)
    tell(1, 1)
    flush.flush_sealed()
    assert cap.trim() == 0
    read_marks.settle()
    flush.flush_sealed()
    assert cap.trim() == 0
    assert Notification.objects.count() == 6
    assert not Excess.objects.exists()
