"""A Redis that lost its memory, came back older than it was, or started again: numbers stay right."""

from collections.abc import Callable
from typing import Any

import pytest
import redis
from django.db.models.functions import Now

from tests.integration.notifications.unread import MARKS, assert_exact, kept, reconciled, unread_rows
from weir.notifications import counters, flush, inbox, reconcile
from weir.notifications.models import FlushedEpoch, Notification, Reconciliation, UnreadCount
from weir.notifications.reconciliation import full_scan, lease, page
from weir.redis_link.keys import keys

pytestmark = [*MARKS, pytest.mark.usefixtures("looks_at_once")]

Snapshot = dict[bytes, bytes]
FAR = 7 * 10**15  # microseconds: in the year 2191


def snapshot(valkey: redis.Redis) -> Snapshot:
    """Return what Redis would write to its disk now."""
    return {key: valkey.dump(key) for key in valkey.keys("{weir:*")}  # type: ignore[misc]  # bytes, as asked for


def restore(valkey: redis.Redis, taken: Snapshot) -> None:
    """Restore Redis to what it was when the snapshot was taken."""
    valkey.flushdb()
    for key, value in taken.items():
        valkey.restore(key, 0, value)


def restart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the server answer like one that was started again."""
    run = counters.server_run("") + "x"
    monkeypatch.setattr(counters, "server_run", lambda _known: run)


def shown() -> dict[int, int]:
    return inbox.unread_counts(unread_rows(1, 2, 3, 4))


def go_on() -> None:
    """Change numbers after all snapshots."""
    inbox.mark_all_read(1)
    inbox.notify_many([2, 3], "news", "Hello")
    Notification.objects.filter(user_id=2).update(user_id=4)


# --- lost -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("flush_first", [True, False], ids=["flush first", "pass first"])
def test_what_redis_forgot_is_shown_exactly_at_once_and_reconciled(valkey: redis.Redis, flush_first: bool) -> None:
    """FLUSHALL between a flush and the next: rows are counted until a full scan has compared all users."""
    inbox.notify_many([1, 2], "news", "Hello")
    flush.flush_sealed()
    go_on()
    valkey.flushdb()
    assert shown() == unread_rows(1, 2, 3, 4)
    inbox.notify_many([1, 3], "news", "Hello")
    assert shown() == unread_rows(1, 2, 3, 4)
    if flush_first:
        flush.flush_sealed()
        assert shown() == unread_rows(1, 2, 3, 4)
    assert kept(unread_rows()) != unread_rows()
    report = reconciled()
    assert report.repaired.first == {1: -1, 2: -1, 3: 1, 4: 2}
    assert report.trusted
    assert_exact()


def test_a_redis_that_forgot_is_trusted_after_a_whole_scan_only(
    valkey: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until all users were compared anew rows are counted, however far the last scan had come."""
    inbox.notify_many(range(1, 6), "news", "Hello")
    flush.flush_sealed()
    monkeypatch.setattr(page, "USERS", 2)
    monkeypatch.setattr(reconcile, "SCAN_S", -1.0)
    monkeypatch.setattr(reconcile, "HURRIED_SCAN_S", -1.0)
    reconciled()
    inbox.notify_many([1, 5], "news", "lost")
    valkey.flushdb()
    for repaired, trusted in [({1: 1}, False), ({}, False), ({5: 1}, True)]:
        assert shown() == unread_rows(1, 2, 3, 4)
        report = reconciled()
        assert (report.repaired.first, report.trusted) == (repaired, trusted)
    assert_exact()


def test_a_redis_that_forgot_is_scanned_in_a_hurry(valkey: redis.Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then one pass goes through all users; otherwise it takes a slice."""
    inbox.notify_many(range(1, 8), "news", "lost")
    monkeypatch.setattr(page, "USERS", 2)
    monkeypatch.setattr(reconcile, "SCAN_S", -1.0)
    valkey.flushdb()
    report = reconciled()
    assert report.repaired.users == 7
    assert report.trusted
    assert_exact()


@pytest.mark.parametrize("overtaken", [True, False], ids=["overtaken", "alone"])
def test_a_redis_that_forgets_while_a_pass_runs_is_not_trusted(
    overtaken: bool, valkey: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This pass saw another Redis; the next pass notices it, even if it has begun already."""
    pages = full_scan.pages
    inbox.notify_many([2, 3], "news", "Hello")
    flush.flush_sealed()

    def forgotten(after: int | None) -> Any:
        yield from pages(after)
        inbox.notify(3, "news", "lost")
        valkey.flushdb()
        flush.flush_sealed()
        if overtaken:
            patched.setattr(full_scan, "pages", pages)
            assert not reconciled().trusted

    monkeypatch.setattr(lease, "LEASE_S", 0.0)
    monkeypatch.setattr(reconcile, "HURRIED_SCAN_S", -1.0)
    monkeypatch.setattr(page, "USERS", 1)
    with monkeypatch.context() as patched:
        patched.setattr(reconcile, "SCAN_S", 9.0)
        patched.setattr(full_scan, "pages", forgotten)
        reconciled()
    assert shown() == unread_rows(1, 2, 3, 4)
    monkeypatch.setattr(reconcile, "HURRIED_SCAN_S", 9.0)
    assert reconciled().trusted
    assert_exact()


@pytest.mark.parametrize("repair", [reconcile.run_pass, reconcile.reconcile_users], ids=["run_pass", "reconcile_users"])
def test_a_flusher_that_held_what_redis_forgot_is_refused_once_that_is_repaired(
    repair: Callable[[], Any], valkey: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was stopped before it could apply its deltas; they are repaired as lost, and must not be added again."""
    apply = flush._apply

    def stopped(epoch: int) -> Any:
        read = counters.read
        held = read(epoch)
        valkey.flushdb()
        repair()
        assert kept([1, 2]) == {1: 1, 2: 1}
        monkeypatch.setattr(counters, "read", lambda _epoch: held)
        written = apply(epoch)
        monkeypatch.setattr(counters, "read", read)
        return written

    inbox.notify_many([1, 2], "news", "Hello")
    monkeypatch.setattr(flush, "_apply", stopped)
    assert flush.flush_sealed().users == 0
    monkeypatch.setattr(flush, "_apply", apply)
    reconciled()
    assert_exact()


# --- older ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("then", [reconcile.run_pass, flush.flush_sealed], ids=["pass first", "flush first"])
@pytest.mark.parametrize("sealed", [True, False], ids=["sealed", "open"])
def test_a_redis_that_came_back_older_than_the_last_flush_is_recognised_by_readers(
    then: Callable[[], Any], sealed: bool, valkey: redis.Redis
) -> None:
    """Its open epoch was flushed already, so rows are counted until a full scan has compared all users."""
    inbox.notify_many([1, 2], "news", "Hello")
    flush.flush_sealed()
    inbox.notify_many([1, 1, 2, 3], "news", "Hello")
    if sealed:
        counters.seal()
        inbox.notify(3, "news", "Hello")
    taken = snapshot(valkey)
    go_on()
    flush.flush_sealed()
    go_on()
    restore(valkey, taken)
    assert shown() == unread_rows(1, 2, 3, 4)
    inbox.notify(2, "news", "Hello")
    assert shown() == unread_rows(1, 2, 3, 4)
    rows = unread_rows(1, 2, 3, 4)
    stored = dict(UnreadCount.objects.values_list("user_id", "unread_count"))
    report = then()
    assert shown() == rows
    report = report if isinstance(report, reconcile.PassReport) else reconciled()
    drifts = {user_id: rows[user_id] - stored.get(user_id, 0) for user_id in rows}
    assert report.repaired.first == {user_id: wrong for user_id, wrong in drifts.items() if wrong}
    assert report.trusted
    assert_exact()


def test_a_redis_that_came_back_older_within_an_epoch_is_recognised_by_its_start(
    valkey: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing was flushed since then, so only the server's start shows it; rows are counted from that pass on."""
    inbox.notify_many([1, 2], "news", "Hello")
    taken = snapshot(valkey)
    go_on()
    restore(valkey, taken)
    restart(monkeypatch)
    with monkeypatch.context() as patched:
        patched.setattr(reconcile, "HURRIED_SCAN_S", -1.0)
        patched.setattr(page, "USERS", 1)
        inbox.notify(1, "news", "Hello")
        flush.flush_sealed()
        assert not reconciled().trusted
    assert shown() == unread_rows(1, 2, 3, 4)
    assert reconciled().trusted
    assert_exact()


def test_a_server_that_started_again_gets_another_incarnation(
    valkey: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gets one, once; its contents may be old, so they are dropped, and numbers are repaired from the rows."""
    inbox.notify_many([1, 2], "news", "Hello")
    before = valkey.get(keys().incarnation)
    reconciled()
    assert valkey.get(keys().incarnation) == before
    restart(monkeypatch)
    report = reconciled()
    after = valkey.get(keys().incarnation)
    assert after != before
    assert (report.repaired.first, report.trusted) == ({1: 1, 2: 1}, True)
    reconciled()
    assert valkey.get(keys().incarnation) == after
    assert Reconciliation.objects.get().server_run == counters.server_run("")
    assert_exact(1, 2)


def test_a_start_that_is_seen_while_another_pass_runs_is_not_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pass that sees it first may not have the lease: after the pass that has it, the next one still knows."""
    inbox.notify(1, "news", "Hello")
    pages = full_scan.pages

    def restarted(after: int | None) -> Any:
        restart(monkeypatch)
        assert reconcile.run_pass() is None
        yield from pages(after)

    with monkeypatch.context() as patched:
        patched.setattr(full_scan, "pages", restarted)
        with pytest.raises(counters.RedisUnreachable, match="lost its memory"):
            reconcile.run_pass()
    counters.add({1: -1})
    assert shown() == unread_rows(1, 2, 3, 4)
    assert reconciled().repaired.first == {1: 2}
    assert_exact()


@pytest.mark.parametrize(
    "meanwhile",
    [
        [reconcile.run_pass],
        [flush.flush_sealed],
        [reconcile.run_pass, flush.flush_sealed],
        [flush.flush_sealed, reconcile.run_pass],
    ],
    ids=["pass", "flush", "pass, flush", "flush, pass"],
)
def test_a_flusher_that_held_what_an_older_redis_holds_again_changes_nothing(
    meanwhile: list[Callable[[], Any]], valkey: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was stopped with an epoch that is open again and was reconciled, or flushed with other deltas, meanwhile."""
    apply, read = flush._apply, counters.read

    def stopped(epoch: int) -> Any:
        held = read(epoch)
        monkeypatch.setattr(flush, "_apply", apply)
        restore(valkey, taken)
        restart(monkeypatch)
        for step in meanwhile:
            step()
        with monkeypatch.context() as patched:
            patched.setattr(counters, "read", lambda _epoch: held)
            return apply(epoch)

    inbox.notify(1, "news", "Hello")
    taken = snapshot(valkey)
    inbox.notify_many([1, 2], "news", "Hello")
    monkeypatch.setattr(flush, "_apply", stopped)
    flush.flush_sealed()
    if reconcile.run_pass in meanwhile:  # only a pass sees that the server started
        assert shown() == unread_rows(1, 2, 3, 4)
    reconciled()
    assert_exact()


# --- epochs ---------------------------------------------------------------------------------------


def epoch(valkey: redis.Redis) -> int:
    return int(valkey.get(keys().epoch) or 0)


def test_epochs_only_grow(valkey: redis.Redis) -> None:
    """Even if Redis loses its memory with epochs that were never flushed, or before PostgreSQL has flushed any."""
    seen = [epoch(valkey)]
    for number in range(6):
        inbox.notify(1, "news", "Hello")
        if number % 2:
            counters.seal()
        else:
            flush.flush_sealed()
        seen.append(epoch(valkey))
        valkey.flushdb()
        if number == 3:
            FlushedEpoch.objects.all().delete()
        flush.flush_sealed()
        seen.append(epoch(valkey))
    assert seen == sorted(set(seen))


def test_an_epoch_far_in_the_future_is_passed_all_the_same(valkey: redis.Redis) -> None:
    """A clock that was wrong once leaves a high epoch behind: flushing and trusting go on above it."""
    FlushedEpoch.objects.create(epoch=FAR, users=0, flushed_at=Now())
    inbox.notify(1, "news", "Hello")
    assert shown() == unread_rows(1, 2, 3, 4)
    for _ in range(3):
        valkey.flushdb()
        inbox.notify(1, "news", "Hello")
        reconciled()
        assert epoch(valkey) > FAR
        assert_exact()
        inbox.notify(1, "news", "Hello")
        assert flush.flush_sealed().users == 1
        assert_exact()
