"""The inbox: what web code writes and reads, and that the unread number follows."""

import asyncio
from collections.abc import Callable, Collection
from pathlib import Path
from threading import Event
from typing import Any

import psycopg
import pytest
from asgiref.sync import sync_to_async
from django.core.exceptions import SynchronousOnlyOperation
from django.db import DataError, connection, connections, transaction
from django.db.models.functions import Now
from django.test.utils import CaptureQueriesContext

from tests.integration.conftest import Eventually, InThreads, WaitersOf
from tests.integration.notifications.unread import MARKS, assert_exact, redis_out_of_reach
from weir.notifications import counters, flush, inbox, user_keys
from weir.notifications.models import Doubt, Notification, UnreadCount
from weir.postgres import statements

pytestmark = MARKS


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
    """The change of rows that are rolled back is dropped; changes around them count, once."""
    with transaction.atomic():
        inbox.notify(1, "news", "stays")
        with pytest.raises(LookupError):
            notify_and_fail(1)
        inbox.notify(1, "news", "stays, too")
        assert inbox.unread_count(1) == 2
    assert inbox.unread_count(1) == 2
    assert Notification.objects.count() == 2


# --- telling many ---------------------------------------------------------------------------------


def test_a_hundred_thousand_users_are_told_in_one_call() -> None:
    """Each is notified once, in a few statements; all their numbers follow."""
    users = range(1, 100_001)
    assert inbox.notify_many((*users, *users), "news", "Hello", body="text", url="/news") == 100_000
    assert set(inbox.unread_counts(users).values()) == {1}
    assert Notification.objects.filter(kind="news", title="Hello", body="text", url="/news").count() == 100_000
    assert flush.flush_sealed().users == 100_000
    assert set(inbox.unread_counts(users).values()) == {1}


def test_all_are_told_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """If one user's row cannot be written, none is, however many statements it takes."""
    monkeypatch.setattr(inbox.writing, "AT_ONCE", 2)
    monkeypatch.setattr(user_keys, "MOST_INTEGER", 2**64)  # so that PostgreSQL is the one to refuse
    with pytest.raises(DataError):
        inbox.notify_many([1, 2, 3, 2**63], "news", "Hello")
    assert_exact(1, 2, 3)
    assert inbox.notify_many([1, 2, 3, 4, 5], "news", "Hello") == 5
    assert inbox.unread_counts(range(1, 6)) == dict.fromkeys(range(1, 6), 1)


# --- marking --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mark", "read"),
    [
        (lambda ids: inbox.mark_read(1, ids), False),
        (lambda _: inbox.mark_all_read(1), False),
        (lambda ids: inbox.mark_unread(1, ids), True),
    ],
    ids=["mark_read", "mark_all_read", "mark_unread"],
)
def test_what_two_mark_at_once_counts_once(
    mark: Callable[[list[int]], int], read: bool, in_threads: InThreads, waiters: WaitersOf, eventually: Eventually
) -> None:
    """The second waits for the first one's commit, and then finds nothing left to do."""
    ids = [inbox.notify(1, "news", "Hello").pk for _ in range(3)]
    if read:
        inbox.mark_all_read(1)
    marked = Event()

    def one(number: int) -> int:
        if number:
            eventually(marked.is_set, "the first to mark")
            return mark(ids)
        with transaction.atomic():
            changed = mark(ids)
            marked.set()
            eventually(lambda: waiters(connection.connection), "the second to wait")
        return changed

    assert in_threads(2, one) == [3, 0]
    assert inbox.unread_count(1) == 3 * read
    assert_exact()


def test_notifications_of_other_users_are_not_marked() -> None:
    """An id of another user's notification is passed over, and so is one that does not exist."""
    mine, read, other, other_read = (inbox.notify(user_id, "news", "Hello").pk for user_id in (1, 1, 2, 2))
    inbox.mark_read(1, [read])
    inbox.mark_read(2, [other_read])
    ids = [mine, mine, other, other_read, 10**9]
    assert inbox.mark_read(1, ids) == 1
    assert inbox.mark_unread(1, ids) == 1
    assert inbox.mark_all_read(1) == 1
    assert set(Notification.objects.unread().values_list("pk", flat=True)) == {other}
    assert inbox.unread_counts([1, 2]) == {1: 0, 2: 1}
    assert_exact()


def test_what_comes_while_all_is_marked_stays_unread(
    in_threads: InThreads,
    waiters: WaitersOf,
    eventually: Eventually,
    other_connection: psycopg.Connection[Any],
) -> None:
    """The user has not seen it: only rows that existed when the call began are marked."""
    inbox.notify_many([1], "news", "seen")
    other_connection.execute("SELECT FROM weir_notifications_notification FOR UPDATE")

    def mark_or_tell(number: int) -> int:
        if number == 0:
            return inbox.mark_all_read(1)
        eventually(lambda: waiters(other_connection), "the call to wait for the row")
        inbox.notify(1, "news", "not seen")
        other_connection.rollback()
        return 0

    assert in_threads(2, mark_or_tell) == [1, 0]
    assert [row.title for row in Notification.objects.unread()] == ["not seen"]
    assert_exact()


# --- numbers --------------------------------------------------------------------------------------


def test_numbers_of_many_users_cost_one_call_and_one_query(monkeypatch: pytest.MonkeyPatch) -> None:
    """For 5,000 users, named twice or not, notified or not; twice as much for one more."""
    inbox.notify_many(range(1, 3_001), "news", "Hello")
    calls: list[str] = []
    peek, execute = counters.peek, statements.execute

    def peeked(users: Collection[int]) -> counters.Peek:
        calls.append("Redis")
        return peek(users)

    def queried(*how: Any) -> list[Any]:
        calls.append("PostgreSQL")
        return execute(*how)

    monkeypatch.setattr(counters, "peek", peeked)
    monkeypatch.setattr(statements, "execute", queried)
    numbers = inbox.unread_counts([*range(1, 5_001), 1, 2, 3])
    assert calls == ["Redis", "PostgreSQL"]
    assert numbers == {user_id: int(user_id <= 3_000) for user_id in range(1, 5_001)}
    assert len(inbox.unread_counts(range(1, 5_002))) == 5_001
    assert calls == ["Redis", "PostgreSQL"] * 3
    assert inbox.unread_counts([]) == {}
    assert len(calls) == 6


@pytest.mark.parametrize("sealed", [True, False], ids=["sealed", "open"])
def test_a_flush_between_the_two_looks_shows_neither_a_dip_nor_a_double(
    sealed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader that has seen the deltas in Redis, and then finds them in PostgreSQL, too, still knows the number."""
    monkeypatch.setattr(inbox.reading, "MOST_COUNTED", 3)
    peek = counters.peek

    def flushed_after(users: Collection[int]) -> counters.Peek:
        seen = peek(users)
        flush.flush_sealed()
        return seen

    inbox.notify_many([1, 2], "news", "flushed before")
    flush.flush_sealed()
    Notification.objects.bulk_create(Notification(user_id=1, kind="news") for _ in range(4))
    if sealed:
        counters.seal()
    monkeypatch.setattr(counters, "peek", flushed_after)
    assert inbox.unread_counts([1, 2, 3]) == {1: 5, 2: 1, 3: 0}


def test_without_redis_rows_are_counted_to_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The number is exact up to the limit, and never costs more than that."""
    monkeypatch.setattr(inbox.reading, "MOST_COUNTED", 3)
    for number in range(5):
        inbox.notify_many(range(number, 5), "news", "Hello")
    with redis_out_of_reach(tmp_path):
        assert inbox.unread_counts(range(6)) == {0: 1, 1: 2, 2: 3, 3: 3, 4: 3, 5: 0}
    assert inbox.unread_counts(range(6)) == {0: 1, 1: 2, 2: 3, 3: 4, 4: 5, 5: 0}


def test_a_user_who_has_more_than_is_counted_is_shown_the_number_that_was_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """If counted rows reach the limit, the limit is a lower bound; stored number and deltas are more exact."""
    monkeypatch.setattr(inbox.reading, "MOST_COUNTED", 3)
    for _ in range(4):
        inbox.notify_many([1, 2, 3], "news", "Hello")
    flush.flush_sealed()
    inbox.notify(1, "news", "Hello")
    counters.add({2: -2, 3: 7})
    inbox.mark_all_read(3)
    Doubt.objects.bulk_create(Doubt(user_id=user_id, noted_at=Now()) for user_id in (1, 2, 3))
    assert inbox.unread_counts([1, 2, 3]) == {1: 5, 2: 3, 3: 0}


def test_a_number_is_never_below_zero() -> None:
    """A notification can be counted as read before it is counted as new; no user is shown that."""
    counters.add({1: -2})
    assert inbox.unread_count(1) == 0
    flush.flush_sealed()
    assert UnreadCount.objects.get().unread_count == -2
    assert inbox.unread_count(1) == 0
    counters.add({1: 3})
    assert inbox.unread_count(1) == 1


# --- async code -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        lambda: inbox.notify(1, "news", "Hello"),
        lambda: inbox.notify_many([1], "news", "Hello"),
        lambda: inbox.mark_all_read(1),
        lambda: inbox.unread_count(1),
        lambda: inbox.unread_by_kind(1),
    ],
    ids=["notify", "notify_many", "mark_all_read", "unread_count", "unread_by_kind"],
)
def test_in_an_event_loop_a_call_is_refused_and_in_its_thread_it_works(call: Callable[[], Any]) -> None:
    """A call that would block the loop does nothing: Django says what to use."""

    async def refused() -> None:
        with pytest.raises(SynchronousOnlyOperation, match="sync_to_async"):
            call()

    async def in_thread() -> None:
        await sync_to_async(call)()
        await sync_to_async(connections.close_all)()  # the connections of that thread

    told = inbox.notify(1, "news", "Hello")
    asyncio.run(refused())
    assert [row.pk for row in Notification.objects.unread()] == [told.pk]
    assert_exact()
    asyncio.run(in_thread())
    assert_exact()


# --- pages ----------------------------------------------------------------------------------------


@pytest.fixture
def ids() -> list[int]:
    """Make 10 notifications, every second one read, with other users' in between; return ids, the newest first."""
    told = [inbox.notify(1 + number % 3 // 2, "news", str(number)).pk for number in range(15)][::-1]
    own = list(Notification.objects.filter(user_id=1).order_by("-pk").values_list("pk", flat=True))
    inbox.mark_read(1, own[1::2])
    assert len(own) == 10 < len(told)
    return own


def pages(limit: int, *, unread_only: bool = False) -> list[list[int]]:
    """Leaf through the inbox of user 1, who is notified between any two pages."""
    seen: list[list[int]] = []
    before = None
    while len(seen) < 9 and (page := inbox.page(1, before=before, limit=limit, unread_only=unread_only)):
        seen.append([row.pk for row in page])
        before = page[-1].pk
        inbox.notify(1, "news", "comes in between")
    return seen


def test_pages_follow_each_other_whatever_comes_in_between(ids: list[int]) -> None:
    """Newest first, nothing twice and nothing left out, though rows are inserted meanwhile."""
    assert pages(4) == [ids[:4], ids[4:8], ids[8:]]
    assert len(inbox.page(1)) == 13
    assert inbox.page(3) == inbox.page(1, before=ids[-1]) == []


def test_pages_of_what_is_unread_leave_out_the_rest(ids: list[int]) -> None:
    """They are as full as other pages."""
    assert pages(3, unread_only=True) == [ids[0:6:2], ids[6::2]]


def test_a_page_is_a_query_without_an_offset(ids: list[int]) -> None:
    """However far back it is, it begins at a key; so does a page of unread ones alone."""
    with CaptureQueriesContext(
        connection,
    ) as queries:
        inbox.page(1, before=ids[3], limit=2, unread_only=True)
    [query] = queries
    assert "OFFSET" not in query["sql"]
    assert query["sql"].endswith("LIMIT 2")


@pytest.mark.parametrize("limit", [0, -1])
def test_a_page_of_nothing_is_refused(limit: int) -> None:
    """A limit below 1 is a mistake, and is reported as one."""
    with pytest.raises(ValueError, match=rf"^limit must be at least 1, but is {limit}\.$"):
        inbox.page(1, limit=limit)
