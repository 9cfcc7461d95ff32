"""Every delta comes from Redis to PostgreSQL once, whatever flushes, stops or dies; and old rows go without a trace."""

from collections import Counter
from datetime import timedelta
from pathlib import Path
from threading import Event
from typing import Any

import psycopg
import pytest
import redis
from django.db import OperationalError, connection
from django.db.models import F
from django.db.models.functions import Now
from pytest_django import Settings

from tests.integration.conftest import Eventually, InThreads, WaitersOf
from tests.integration.notifications.unread import MARKS, assert_exact, assert_kept, redis_out_of_reach, with_deltas
from weir.notifications import counters, flush, inbox
from weir.notifications.counters import SealedDeltas
from weir.notifications.flush import FlushReport, flush_sealed
from weir.notifications.models import FlushedEpoch, Notification, UnreadCount
from weir.notifications.removal import retention
from weir.postgres import statements
from weir.postgres.statements import Statement
from weir.redis_link.keys import keys

pytestmark = MARKS


def stored() -> dict[int, int]:
    return dict(UnreadCount.objects.values_list("user_id", "unread_count"))


# --- once -----------------------------------------------------------------------------------------


def test_flushers_at_once_bring_every_delta_once(in_threads: InThreads) -> None:
    """However many flush while others add, the stored numbers are in the end the sum of all that was added."""

    def add_or_flush(number: int) -> Counter[int]:
        added = Counter[int]()
        for turn in range(30):
            if number % 2:
                flush_sealed()
            else:
                deltas = dict.fromkeys(range(number, number + 5), 1 + turn % 3)
                counters.add(deltas)
                added.update(deltas)
        return added

    added = sum(in_threads(6, add_or_flush), Counter[int]())
    flush_sealed()
    assert stored() == added


@pytest.mark.parametrize("step", ["read", "apply", "drop"])
def test_a_flusher_that_stops_is_overtaken_and_does_no_harm(step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before whichever step it stops, others go on flushing meanwhile, and what it does in the end changes nothing."""
    module, name = (flush, "_apply") if step == "apply" else (counters, step)
    call = getattr(module, name)

    def stopped(*arguments: Any) -> Any:
        monkeypatch.setattr(module, name, call)  # for the flush that overtakes
        for users in ([1, 2], [2, 3]):
            inbox.notify_many(users, "news", "meanwhile")
            flush_sealed()
        inbox.notify_many([3, 4], "news", "meanwhile")
        assert counters.seal()
        return call(*arguments)

    inbox.notify_many([1], "news", "before")
    monkeypatch.setattr(module, name, stopped)
    flush_sealed()
    assert_kept()
    assert_exact(1, 2, 3, 4)


def test_two_that_apply_an_epoch_at_once_write_it_once(in_threads: InThreads, eventually: Eventually) -> None:
    """The second does not wait: it leaves the epoch, and its dropping, to the first."""
    counters.add({1: 1})
    applied, met = Event(), Event()
    execute = statements.execute

    def linger(statement: Statement[Any], *how: Any) -> Any:
        rows = execute(statement, *how)
        if statement.name == "apply_epoch" and rows[0].epochs:
            applied.set()
            eventually(met.is_set, "the second to meet the first")
        return rows

    def one(number: int) -> int:
        if number:
            eventually(applied.is_set, "the first to apply")
            report = flush.flush_sealed()
            assert with_deltas([1]) == {1}
            met.set()
            return report.users
        return flush.flush_sealed().users

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(statements, "execute", linger)
        assert in_threads(2, one) == [1, 0]
    assert stored() == {1: 1}


def test_epochs_are_not_refused_while_one_is_being_applied(
    in_threads: InThreads, waiters: WaitersOf, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reconciler waits for the flusher's commit, so that it sees what it repairs after it."""
    counters.add({1: 1})
    applied = Event()
    execute = statements.execute

    def linger(statement: Statement[Any], *how: Any) -> Any:
        rows = execute(statement, *how)
        if statement.name == "apply_epoch":
            applied.set()
            eventually(lambda: waiters(connection.connection), "the refusal to wait", seconds=5)
        return rows

    def one(number: int) -> None:
        if number:
            eventually(applied.is_set, "the flusher to apply")
            flush.refuse_before(2**60)
            assert stored() == {1: 1}
        else:
            assert flush_sealed().users == 1

    monkeypatch.setattr(statements, "execute", linger)
    in_threads(2, one)


def test_applying_an_epoch_has_no_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """An epoch too large for the time limit could never be flushed; other statements keep the limit."""
    limits: list[str] = []
    execute = statements.execute

    def look(statement: Statement[Any], *how: Any) -> Any:
        with connection.cursor() as cursor:
            cursor.execute("SHOW statement_timeout")
            limits.append(statement.name + " " + cursor.fetchone()[0])
        return execute(statement, *how)

    counters.add({1: 1})
    monkeypatch.setattr(statements, "execute", look)
    flush_sealed()
    inbox.unread_count(1)
    assert limits == ["highest_epoch 1min", "watched_state 1min", "apply_epoch 0", "unread_numbers 1min"]


def test_a_flusher_with_an_epoch_that_was_dropped_writes_nothing() -> None:
    """What it has read was applied, and dropped, by another flusher."""
    counters.add({1: 1, 2: 2})
    sealed = counters.seal()
    assert sealed
    assert flush_sealed() == FlushReport(epochs=1, users=2)
    assert flush._apply(sealed.epoch).epochs == 0
    counters.drop(sealed.epoch)
    assert stored() == {1: 1, 2: 2}


def test_what_a_killed_flusher_sealed_comes_first() -> None:
    """It was closed before the open epoch, so one call brings both, in their order."""
    counters.add({1: 1})
    sealed = counters.seal()
    assert sealed
    counters.add({1: 10, 2: 10})
    assert inbox.unread_counts([1, 2]) == {1: 11, 2: 10}
    assert flush_sealed() == FlushReport(epochs=2, users=3)
    assert stored() == {1: 11, 2: 10}
    flushed = FlushedEpoch.objects.filter(users__gt=0).order_by("flushed_at")
    assert list(flushed.values_list("epoch", "users")) == [(sealed.epoch, 1), (sealed.epoch + 1, 2)]


def test_what_a_killed_flusher_brought_is_not_brought_again() -> None:
    """Killed between the commit and the drop: the epoch is dropped unread, and the open one follows."""
    counters.add({1: 1})
    sealed = counters.seal()
    assert sealed
    assert flush._apply(sealed.epoch).users == 1
    counters.add({1: 10})
    assert flush_sealed() == FlushReport(epochs=1, users=1)
    assert stored() == {1: 11}
    assert flush_sealed() == FlushReport()


def test_no_epoch_is_applied_after_a_later_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A number's epoch speaks for all before it, so an epoch that comes too late is refused, whatever it holds."""
    monkeypatch.setattr(counters, "read", lambda _epoch: SealedDeltas(deltas={3: 5}))
    FlushedEpoch.objects.all().delete()
    FlushedEpoch.objects.create(epoch=100, users=0, flushed_at=Now())
    assert [flush._apply(epoch).epochs for epoch in (1, 99, 100)] == [0, 0, 0]
    assert flush._apply(101).users == 1
    assert stored() == {3: 5}
    assert flush.highest_epoch() == 101


# --- what is brought ------------------------------------------------------------------------------


def test_a_user_whose_deltas_came_to_nothing_is_not_written() -> None:
    """A user who is notified and reads within an epoch costs PostgreSQL no row."""
    counters.add({1: 1, 2: 1})
    counters.add({1: -1})
    assert flush_sealed() == FlushReport(epochs=1, users=1)
    assert stored() == {2: 1}
    counters.add({2: 1})
    counters.add({2: -1})
    assert flush_sealed() == FlushReport(epochs=1, users=0)
    assert flush_sealed() == FlushReport()


def test_an_epoch_may_have_more_users_than_a_page(valkey: redis.Redis) -> None:
    """Whatever their ids and deltas are: there are 12,000 users, and Redis returns 5,000 at a time."""
    deltas = {user_id: user_id % 7 - 3 for user_id in [*range(1, 12_000), 2**62, -5]}
    counters.add(deltas)
    report = flush_sealed()
    written = {user_id: delta for user_id, delta in deltas.items() if delta}
    assert report == FlushReport(epochs=1, users=len(written))
    assert stored() == written
    assert not valkey.exists(keys().open, keys().sealed, keys().deltas)


def test_flushing_what_is_empty_writes_nothing(valkey: redis.Redis) -> None:
    """Neither a Redis without deltas nor one that lost everything leaves a note behind."""
    assert flush_sealed() == FlushReport()
    valkey.flushdb()
    assert flush_sealed() == FlushReport()
    assert not FlushedEpoch.objects.filter(users__gt=0).exists()
    inbox.notify(1, "news", "Hello")
    assert flush_sealed().users == 1


# --- out of reach ---------------------------------------------------------------------------------


def test_a_flush_without_redis_says_so_and_loses_nothing(tmp_path: Path) -> None:
    """It raises RedisUnreachable; a later flush brings the waiting deltas."""
    inbox.notify(1, "news", "Hello")
    with redis_out_of_reach(tmp_path), pytest.raises(counters.RedisUnreachable, match=r"No such file"):
        flush_sealed()
    assert_exact(1)
    assert stored() == {1: 1}


def test_a_flush_that_postgresql_refuses_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The epoch stays sealed until a flush commits, and then it is the first."""

    def refused(*_arguments: Any) -> None:
        raise OperationalError("the server is shutting down")

    inbox.notify(1, "news", "Hello")
    with monkeypatch.context() as patched:
        patched.setattr(flush, "_apply", refused)
        with pytest.raises(OperationalError):
            flush_sealed()
    inbox.notify(1, "news", "Hello")
    assert inbox.unread_count(1) == 2
    assert flush_sealed() == FlushReport(epochs=2, users=2)
    assert_exact(1)


# --- retention ------------------------------------------------------------------------------------


@pytest.fixture
def _old_and_young(settings: Settings) -> None:
    """Make rows of user 1: five read long ago, one read just now, one unread for long."""
    settings.WEIR_NOTIFICATION_RETENTION = 60.0
    Notification.objects.bulk_create(
        Notification(user_id=1, kind=kind, read_at=read_at)
        for kind, read_at in [
            *[("old", Now() - timedelta(seconds=61))] * 5,
            ("young", Now() - timedelta(seconds=50)),
            ("unread", None),
        ]
    )
    Notification.objects.filter(kind="unread").update(created_at=Now() - timedelta(days=999))
    flush_sealed()


def kinds() -> list[str]:
    return sorted(Notification.objects.values_list("kind", flat=True))


@pytest.mark.usefixtures("_old_and_young")
@pytest.mark.parametrize("batch", [2, 5, 1_000])
def test_what_was_read_long_ago_goes_in_batches(batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing else does, and no user's number changes, however many batches it takes."""
    monkeypatch.setattr(retention, "BATCH", batch)
    epochs = FlushedEpoch.objects.count()
    assert retention.purge() == 5
    assert kinds() == ["unread", "young"]
    assert flush_sealed() == FlushReport()
    assert FlushedEpoch.objects.count() == epochs
    assert_exact(1)
    assert retention.purge() == 0


@pytest.mark.usefixtures("_old_and_young")
def test_purging_waits_for_no_lock(other_connection: psycopg.Connection[Any]) -> None:
    """Rows that another transaction holds, which may mark them as unread, are left for the next time."""
    other_connection.execute(
        "UPDATE weir_notifications_notification SET read_at = NULL WHERE id IN "
        "(SELECT id FROM weir_notifications_notification WHERE kind = 'old' LIMIT 2)"
    )
    assert retention.purge() == 3
    other_connection.rollback()
    assert retention.purge() == 2


@pytest.mark.usefixtures("_old_and_young")
def test_a_purge_that_has_no_more_time_leaves_the_rest_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """However much there is to delete, notes of epochs included, a purge ends."""
    monkeypatch.setattr(retention, "BATCH", 2)
    FlushedEpoch.objects.bulk_create(
        FlushedEpoch(epoch=epoch, users=1, flushed_at=Now() - timedelta(days=2)) for epoch in range(1, 6)
    )
    notes = FlushedEpoch.objects.filter(epoch__lt=6)
    assert [(retention.purge(within_s=0.0), notes.count()) for _ in range(4)] == [(2, 3), (2, 1), (1, 0), (0, 0)]


def test_notes_of_epochs_go_after_a_day_but_never_the_highest() -> None:
    """The highest tells which epochs are too late, so it is kept however old it is."""
    for _ in range(4):
        counters.add({1: 1})
        flush_sealed()
    epochs = list(FlushedEpoch.objects.order_by("epoch").values_list("epoch", flat=True))
    FlushedEpoch.objects.filter(epoch__in=epochs[:2]).update(flushed_at=F("flushed_at") - timedelta(hours=25))
    retention.purge()
    assert list(FlushedEpoch.objects.order_by("epoch").values_list("epoch", flat=True)) == epochs[2:]
    FlushedEpoch.objects.update(flushed_at=F("flushed_at") - timedelta(hours=25))
    retention.purge()
    assert list(FlushedEpoch.objects.values_list("epoch", flat=True)) == epochs[-1:]
    assert stored() == {1: 4}
