"""What the tests of unread numbers share: the rows counted, what the counters keep, and an unreachable Redis."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis
from django.conf import settings
from django.db import connection
from django.test import override_settings

from weir.notifications import counters, flush, inbox, reconcile
from weir.notifications.models import Doubt, Reconciliation, UnreadCount
from weir.notifications.reconciliation import full_scan
from weir.redis_link import calls
from weir.redis_link.keys import keys

# Only the tables of `notifications` are emptied between tests, which takes a tenth of the time.
MARKS = [
    pytest.mark.django_db(transaction=True, available_apps=["weir.notifications"]),
    pytest.mark.usefixtures("valkey"),
]


def no_scan(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make passes look at doubts and changes only."""
    monkeypatch.setattr(full_scan, "pages", lambda _after: iter(()))


def unread_rows(*also: int) -> dict[int, int]:
    """Return COUNT(*) of the unread rows by user: of all users who have rows or a number, and of these."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT user_id, count(*) FILTER (WHERE read_at IS NULL) "
            "FROM weir_notifications_notification GROUP BY user_id"
        )
        rows = dict(cursor.fetchall())
    return dict.fromkeys((*UnreadCount.objects.values_list("pk", flat=True), *also), 0) | rows


def kept(users: Iterable[int]) -> dict[int, int]:
    """Return the numbers of these users in the counters: what was flushed, and the deltas after it."""
    stored = {row.user_id: row for row in UnreadCount.objects.filter(pk__in=users)}
    with redis.Redis.from_url(settings.REDIS_URL, decode_responses=True) as client:
        sealed: Any = client.get(keys().sealed)
        live: dict[int, Any] = {
            int(sealed or 0): client.zrange(keys().deltas, 0, -1, withscores=True),
            2**63: client.zrange(keys().open, 0, -1, withscores=True),
        }
    numbers = {user_id: stored[user_id].unread_count if user_id in stored else 0 for user_id in users}
    for epoch, deltas in live.items():
        for member, delta in deltas:
            user_id = int(member)
            if user_id in numbers and (user_id not in stored or epoch > stored[user_id].epoch):
                numbers[user_id] += int(delta)
    return numbers


def with_deltas(users: Iterable[int]) -> set[int]:
    """Return which of these users have live deltas."""
    return set[int]().union(*counters.peek(list(users)).deltas.values())


def assert_kept() -> None:
    """All numbers in the counters are those of the rows."""
    rows = unread_rows()
    assert kept(rows) == rows


def assert_exact(*also: int) -> None:
    """All numbers are those of the rows, shown from the counters and not by counting, even after a flush."""
    rows = unread_rows(*also)
    for _ in ("before a flush", "after it"):
        assert Reconciliation.objects.get().trusted
        assert not Doubt.objects.exists()
        assert kept(rows) == rows
        assert inbox.unread_counts(rows) == rows
        flush.flush_sealed()


@contextmanager
def redis_at(url: str) -> Iterator[None]:
    """Make this process look for Redis there, as if it did so for the first time."""
    with override_settings(REDIS_URL=url):
        calls.forget()
        try:
            yield
        finally:
            calls.forget()


@contextmanager
def redis_out_of_reach(folder: Path) -> Iterator[None]:
    """Make this process look for Redis where no server listens."""
    with redis_at(f"unix://{folder}/nothing.sock"):
        yield


@contextmanager
def lost() -> Iterator[None]:
    """Behave as if the process died between COMMIT and `add`, as far as Redis can tell."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(counters, "add", lambda _deltas: None)
        yield


def sql(statement: str) -> None:
    """Change rows in a way that is not counted."""
    with connection.cursor() as cursor:
        cursor.execute(statement)


def reconciled() -> reconcile.PassReport:
    """Run a pass, and return what it did; fails if another one runs."""
    report = reconcile.run_pass()
    assert report
    return report


def make_wrong(*users: int) -> None:
    """Make the numbers of these users too low by one."""
    with lost():
        inbox.notify_many(users, "news", "lost")
