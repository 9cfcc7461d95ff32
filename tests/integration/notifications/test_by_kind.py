"""Unread notifications by kind: what the rows say, in one statement, whatever Redis knows."""

from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.db import connection, transaction

from tests.integration.notifications.unread import MARKS, lost, redis_out_of_reach, sql
from weir.notifications import inbox
from weir.notifications.inbox import read_marks
from weir.notifications.models import Notification, ReadMark
from weir.postgres import statements

pytestmark = MARKS

UNREAD_BY_KIND = """
    SELECT kind, count(*) FROM weir_notifications_notification AS row
    WHERE user_id = %s AND read_at IS NULL AND NOT EXISTS (
        SELECT FROM weir_notifications_readmark AS mark
        WHERE mark.user_id = row.user_id
            AND weir_notifications_covers(mark.up_to, mark.marked_by, mark.snapshot, row.id, row.changed_xid)
    )
    GROUP BY kind
"""


@pytest.fixture
def few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a read mark do the work for more than two notifications."""
    monkeypatch.setattr(inbox.writing, "MOST_MARKED", 2)


def told(user: int, *kinds: str) -> list[int]:
    return [inbox.notify(user, kind, "Hello").pk for kind in kinds]


def rows(user: int) -> dict[str, int]:
    """Return how many of the user's rows are unread, by kind, as PostgreSQL counts all of them."""
    with connection.cursor() as cursor:
        cursor.execute(UNREAD_BY_KIND, [user])
        return dict(cursor.fetchall())


def test_each_kind_has_its_number() -> None:
    """Kinds without unread notifications are left out, and so are other users' notifications."""
    ids = told(1, "news", "sale", "news", "order.shipped")
    told(2, "news", "greeting")
    assert inbox.unread_by_kind(1) == {"news": 2, "sale": 1, "order.shipped": 1} == rows(1)
    inbox.mark_read(1, ids[:2])
    assert inbox.unread_by_kind(1) == {"news": 1, "order.shipped": 1} == rows(1)
    inbox.mark_all_read(1)
    assert inbox.unread_by_kind(1) == {}
    assert inbox.unread_by_kind(3) == {}


@pytest.mark.usefixtures("few_are_many")
def test_what_a_read_mark_covers_is_read() -> None:
    """Later notifications, and those marked as unread again, are not; nothing changes when the rows are settled."""
    ids = told(1, "news", "sale", "news", "sale", "sale")
    inbox.mark_all_read(1)
    assert ReadMark.objects.exists()
    assert inbox.unread_by_kind(1) == {} == rows(1)
    inbox.mark_unread(1, ids[:1])
    told(1, "sale", "order.shipped", "sale")
    assert inbox.unread_by_kind(1) == {"news": 1, "sale": 2, "order.shipped": 1} == rows(1)
    read_marks.settle()
    assert not ReadMark.objects.exists()
    assert inbox.unread_by_kind(1) == {"news": 1, "sale": 2, "order.shipped": 1} == rows(1)


@pytest.mark.usefixtures("few_are_many")
def test_what_commits_after_a_read_mark_stays_unread(other_connection: psycopg.Connection[Any]) -> None:
    """Rows that others committed before the mark, while its transaction was open, are read."""
    other_connection.execute(
        "INSERT INTO weir_notifications_notification (user_id, kind, title, body, url) "
        "VALUES (1, 'late', 'Hello', '', '')"
    )
    told(1, "news", "sale", "sale")
    inbox.mark_all_read(1)
    assert inbox.unread_by_kind(1) == {} == rows(1)
    other_connection.commit()
    assert inbox.unread_by_kind(1) == {"late": 1} == rows(1)


@pytest.mark.usefixtures("few_are_many")
def test_a_transaction_sees_what_it_has_changed() -> None:
    """It sees its own read mark, and what it wrote before and after that; after a rollback, nothing of it is left."""
    told(1, "news", "sale")
    with transaction.atomic():
        ids = told(1, "news", "sale")
        assert inbox.unread_by_kind(1) == {"news": 2, "sale": 2} == rows(1)
        inbox.mark_read(1, ids[:1])
        assert inbox.unread_by_kind(1) == {"news": 1, "sale": 2} == rows(1)
        inbox.mark_all_read(1)
        assert ReadMark.objects.exists()
        told(1, "order.shipped")
        assert inbox.unread_by_kind(1) == {"order.shipped": 1} == rows(1)
        transaction.set_rollback(True)
    assert inbox.unread_by_kind(1) == {"news": 1, "sale": 1} == rows(1)


def test_of_too_many_those_count_that_became_unread_last(
    monkeypatch: pytest.MonkeyPatch,
    few_are_many: None,  # noqa: ARG001  for its effect
) -> None:
    """Also with a read mark: an old notification that was marked as unread again is among the last."""
    monkeypatch.setattr(inbox.reading, "MOST_COUNTED", 3)
    ids = told(1, "a", "b", "c", "d", "e")
    assert inbox.unread_by_kind(1) == {"c": 1, "d": 1, "e": 1}
    inbox.mark_read(1, ids[:1])
    inbox.mark_unread(1, ids[:1])
    assert inbox.unread_by_kind(1) == {"d": 1, "e": 1, "a": 1}
    inbox.mark_all_read(1)
    told(1, "f")
    assert inbox.unread_by_kind(1) == {"f": 1}
    inbox.mark_unread(1, ids[3:])
    told(1, "g")
    assert inbox.unread_by_kind(1) == {"d": 1, "e": 1, "g": 1}


def test_ten_thousand_are_counted() -> None:
    """The newest are; the sum says that there are as many or more."""
    told(1, "old")
    Notification.objects.bulk_create(Notification(user_id=1, kind="ab"[n % 2], title="Hello") for n in range(10_000))
    assert inbox.unread_by_kind(1) == {"a": 5_000, "b": 5_000}
    assert sum(rows(1).values()) == 10_001


def test_only_the_rows_decide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a lost delta nor raw SQL makes it wrong; it is one statement, and Redis is not asked."""
    with lost():
        told(1, "news", "sale")
    sql("DELETE FROM weir_notifications_notification WHERE kind = 'news'")
    executed: list[None] = []
    statements.before_each(lambda: executed.append(None))
    monkeypatch.setattr("weir.notifications.counters.peek", lambda _users: pytest.fail("Redis was asked."))
    with redis_out_of_reach(tmp_path):
        assert inbox.unread_by_kind(1) == {"sale": 1} == rows(1)
    statements.before_each(lambda: None)
    assert len(executed) == 1
