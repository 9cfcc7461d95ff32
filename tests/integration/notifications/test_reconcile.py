"""A pass finds every number that is wrong, for any reason, and repairs it once; deltas on their way are left alone."""

from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest
import redis
from django.db import connection
from structlog.testing import capture_logs

from tests.integration.notifications.unread import (
    MARKS,
    assert_exact,
    kept,
    lost,
    make_wrong,
    no_scan,
    reconciled,
    sql,
    unread_rows,
)
from weir.notifications import changes, counters, flush, inbox, reconcile
from weir.notifications.models import Doubt, Notification, Reconciliation
from weir.notifications.reconciliation import changed, doubts, drift, lease, page
from weir.postgres import statements
from weir.postgres.statements import Statement
from weir.redis_link import calls, places
from weir.redis_link.keys import keys

pytestmark = [*MARKS, pytest.mark.usefixtures("reconcile_at_once")]

objects = Notification.objects


# --- what is found --------------------------------------------------------------------------------


@pytest.mark.parametrize("flushed", [True, False], ids=["flushed", "not flushed"])
@pytest.mark.parametrize(
    ("change", "drifts"),
    [
        (lambda _: inbox.notify(1, "news", "lost"), {1: 1}),
        (lambda _: inbox.notify_many([1, 2, 3], "news", "lost"), {1: 1, 2: 1, 3: 1}),
        (lambda rows: inbox.mark_read(1, [rows[0].pk]), {1: -1}),
        (lambda rows: inbox.mark_unread(1, [rows[2].pk]), {1: 1}),
        (lambda rows: rows[0].save(update_fields=["read_at"]), {1: -1}),
        (lambda _: objects.update(read_at=None), {1: 1}),
        (lambda rows: objects.bulk_create([Notification(user_id=3, kind="news", title=rows[0].title)]), {3: 1}),
    ],
    ids=["notify", "notify_many", "mark_read", "mark_unread", "save", "update", "bulk_create"],
)
def test_a_lost_delta_is_found_by_what_changed(
    change: Callable[[list[Notification]], Any], drifts: dict[int, int], flushed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows say when they changed; once a change is old enough, a pass counts its user's rows."""
    no_scan(monkeypatch)
    rows = [inbox.notify(1, "news", "Hello"), inbox.notify(2, "news", "Hello"), inbox.notify(1, "news", "Hello")]
    inbox.mark_read(1, [rows[2].pk])
    if flushed:
        flush.flush_sealed()
    assert reconciled().repaired.first == {}
    rows[0].read_at = rows[0].created_at
    with lost():
        change(rows)
    monkeypatch.setattr(changed, "SETTLED_S", 30.0)
    assert reconciled().repaired.first == {}
    monkeypatch.setattr(changed, "SETTLED_S", 0.0)
    assert reconciled().repaired.first == drifts
    assert_exact()
    assert reconciled().looked_at == 0


def delete_unseen(valkey: redis.Redis | None) -> None:  # noqa: ARG001  as the others
    with lost():
        objects.filter(user_id=1).delete()


def hide_behind_a_live_delta(valkey: redis.Redis | None) -> None:
    delete_unseen(valkey)
    inbox.notify(1, "news", "makes rows and stored number the same again")


def add_of_nothing(_: redis.Redis) -> None:
    counters.add({5: 3})
    flush.flush_sealed()


@pytest.mark.parametrize(
    "damage",
    [
        delete_unseen,
        hide_behind_a_live_delta,
        add_of_nothing,
        lambda _: sql("UPDATE weir_notifications_notification SET read_at = now() WHERE user_id = 1"),
        lambda _: sql("DELETE FROM weir_notifications_notification"),
        lambda _: sql("TRUNCATE weir_notifications_notification"),
        lambda _: sql("INSERT INTO weir_notifications_notification (user_id, kind, title, body, url) "
                      "VALUES (9, '', '', '', '')"),
        lambda _: sql("UPDATE weir_notifications_unreadcount SET unread_count = 99 WHERE user_id = 2"),
        lambda _: sql("DELETE FROM weir_notifications_unreadcount WHERE user_id = 2"),
        lambda valkey: (inbox.notify_many([1, 2, 3], "news", "evicted"), valkey.delete(keys().open)),
    ],
    ids=["deleted", "hidden", "added", "SQL update", "SQL delete", "truncate", "SQL insert", "number", "no number",
         "evicted"],
)  # fmt: skip
def test_the_full_scan_finds_what_leaves_no_trace(
    damage: Callable[[redis.Redis], Any], valkey: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Deleted rows, raw SQL, numbers set by hand, an evicted key: whatever the cause, the next full scan repairs it."""
    inbox.notify_many([1, 2], "news", "Hello")
    flush.flush_sealed()
    damage(valkey)
    monkeypatch.setattr(changed, "SETTLED_S", 30.0)
    rows = unread_rows(3, 5, 9)
    assert kept(rows) != rows
    with capture_logs() as entries:
        repaired = reconciled().repaired.first
    assert repaired
    assert entries == [
        {
            "event": "unread_drift_repaired",
            "log_level": "warning",
            "users": len(repaired),
            "first": {str(user): by for user, by in repaired.items()},
        }
    ]
    assert_exact(1, 2, 3, 5, 9)


@pytest.mark.usefixtures("valkey")
@pytest.mark.parametrize("loses_memory", [False, True])
def test_what_an_outage_has_missed_is_no_alarm(loses_memory: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The users were doubts, or Redis was not trusted: their rows were counted, and no user saw a wrong number."""
    inbox.notify_many([1], "news", "before")
    flush.flush_sealed()
    with monkeypatch.context() as outage:
        outage.setattr(counters, "add", lambda _change: refuse())
        inbox.notify_many([1, 2], "news", "Redis refuses writes")
    if loses_memory:
        Doubt.objects.all().delete()  # no process has noted doubts about what was lost
        reconcile.distrust()
    assert inbox.unread_counts([1, 2]) == {1: 2, 2: 1}
    with capture_logs() as entries:
        assert reconciled().repaired.first == {1: 1, 2: 1}
    assert [(entry["event"], entry["log_level"]) for entry in entries] == [("unread_doubts_settled", "info")]
    assert_exact(1, 2)


def refuse() -> NoReturn:
    raise counters.RedisUnreachable("MISCONF Errors writing to the AOF file: No space left on device")


# --- what is left alone ---------------------------------------------------------------------------


def between_looks(monkeypatch: pytest.MonkeyPatch, *steps: Callable[[], Any]) -> None:
    """Call these one after the other, each between two looks of a pass."""
    pauses = iter(steps)
    monkeypatch.setattr(drift, "_wait_until_apart", lambda _looked_at: next(pauses, lambda: None)())


def test_the_full_scan_finds_what_a_delta_hides_that_is_flushed_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """The delta was live when rows and stored numbers were compared, but not when Redis is asked."""
    inbox.notify_many([1, 2], "news", "Hello")
    flush.flush_sealed()
    hide_behind_a_live_delta(None)
    monkeypatch.setattr(changed, "SETTLED_S", 30.0)
    peek = counters.peek

    def peeked(users: Collection[int]) -> counters.Peek:
        monkeypatch.setattr(counters, "peek", peek)
        flush.flush_sealed()
        return peek(users)

    monkeypatch.setattr(counters, "peek", peeked)
    assert reconciled().repaired.first == {1: -1}
    assert_exact()


def test_a_full_scan_reads_no_more_than_the_deltas_of_a_slice(
    valkey: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Redis is asked about the users of a slice, 5,000 a call: it serves others in between."""
    inbox.notify_many(range(20), "news", "Hello")
    monkeypatch.setattr(counters, "AT_ONCE", 6)
    valkey.config_resetstat()
    assert reconciled().looked_at >= 20
    calls: Any = valkey.info("commandstats")
    assert not [name for name in calls if "zrange" in name.lower()]
    assert calls["cmdstat_zmscore"]["calls"] >= 4


@pytest.mark.parametrize("looks", [1, 2, 3])
def test_a_delta_that_is_on_its_way_is_not_repaired(looks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """It arrives before the last look, so the number is right then, and there is no doubt."""
    make_wrong(1)
    between_looks(monkeypatch, *[lambda: None] * (looks - 1), lambda: counters.add({1: 1}))
    assert reconciled().repaired.first == {}
    assert not Doubt.objects.exists()
    assert_exact()


def test_looks_are_a_second_apart_and_reach_beyond_a_late_delta(monkeypatch: pytest.MonkeyPatch) -> None:
    """A delta so late that a pass may have repaired it makes its user a doubt: a pass looks for twice as long."""
    monkeypatch.undo()
    pauses: list[float] = []
    monkeypatch.setattr(drift, "time", SimpleNamespace(sleep=pauses.append, monotonic=lambda: 0.0))
    make_wrong(1)
    assert reconcile.reconcile_users().first == {1: 1}
    assert sum(pauses) >= 2 * changes.LATE_S
    assert sum(pauses) > places.ANSWER_TIMEOUT_S + calls.SLACK_S, "a delta would be added after its number was repaired"


def test_a_drift_that_changes_while_it_is_looked_at_is_left_to_the_next_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """It cannot be decided which part of it stays, so the user becomes a doubt, and is looked at again."""
    no_scan(monkeypatch)
    make_wrong(1)
    between_looks(monkeypatch, lambda: make_wrong(1))
    report = reconciled()
    assert (report.repaired.first, report.doubtful) == ({}, 1)
    assert inbox.unread_count(1) == 2
    assert reconciled().repaired.first == {1: 2}
    assert_exact()


def test_deltas_on_their_way_that_look_like_a_drift_together_are_not_repaired(monkeypatch: pytest.MonkeyPatch) -> None:
    """At each look another delta of the same size is missing: rows moved, so the user is a doubt, and rows count."""

    def arrive_and_begin_another() -> None:
        counters.add({1: 1})
        make_wrong(1)

    make_wrong(1)
    between_looks(monkeypatch, *[arrive_and_begin_another] * 3)
    assert reconciled().repaired.first == {}
    assert list(Doubt.objects.values_list("pk", flat=True)) == [1]
    assert inbox.unread_count(1) == Notification.objects.count()
    counters.add({1: 1})
    assert reconciled().repaired.first == {}
    assert_exact()


def test_a_drift_of_a_user_who_moves_is_a_doubt_until_it_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user who is notified all the time is shown the count of rows; the number is repaired when there is a pause."""
    make_wrong(1)
    with monkeypatch.context() as patched:
        between_looks(patched, *[lambda: (inbox.notify(1, "news", "Hello"), flush.flush_sealed())] * 3)
        assert reconciled().repaired.first == {}
    assert inbox.unread_count(1) == Notification.objects.count()
    assert reconciled().repaired.first == {1: 1}
    assert_exact()


def elsewhere(call: Callable[[], Any]) -> None:
    """Call it on another connection, and wait for its end."""

    def called() -> None:
        try:
            call()
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as other:
        other.submit(called).result()


def restless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Notify user 1 at each peek, so that no look can tell anything about this user."""
    peek = counters.peek

    def peeked(users: Collection[int]) -> counters.Peek:
        elsewhere(lambda: inbox.notify(1, "news", "Hello"))
        return peek(users)

    monkeypatch.setattr(counters, "peek", peeked)


def test_a_user_whose_deltas_never_rest_is_no_doubt_but_stays_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look would see two moments: if no difference was seen, nothing is wrong, and nothing is known to be right."""
    inbox.notify_many([1, 2], "news", "Hello")
    with monkeypatch.context() as patched:
        restless(patched)
        report = reconciled()
        assert (report.repaired.first, report.doubtful) == ({}, 0)
        assert not Doubt.objects.exists()
        sql("INSERT INTO weir_notifications_doubt (user_id, noted_at) VALUES (1, now()), (2, now())")
        reconciled()
    assert Doubt.objects.get().pk == 1
    assert reconciled().doubtful == 0
    assert_exact()


def test_a_user_whose_deltas_never_rest_is_a_doubt_where_redis_lost_deltas(
    valkey: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Redis is trusted after this scan: it must not be trusted for a number that could not be looked at."""
    inbox.notify_many([1, 2], "news", "Hello")
    valkey.flushdb()
    with monkeypatch.context() as patched:
        restless(patched)
        report = reconciled()
    assert (report.repaired.first, report.doubtful, report.trusted) == ({2: 1}, 1, True)
    assert inbox.unread_count(1) == objects.filter(user_id=1).count()
    assert reconciled().repaired.first == {1: 1}
    assert_exact()


def test_a_user_who_is_notified_while_rows_are_counted_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long that takes: all that is compared is of an earlier moment, and a doubt ends."""
    inbox.notify_many([1, 2], "news", "Hello")
    sql("INSERT INTO weir_notifications_doubt (user_id, noted_at) VALUES (1, now())")
    execute = statements.execute
    counted: list[Any] = []

    def notified(statement: Statement[Any], parameters: dict[str, Any], *database: Any) -> Any:
        if statement.name == "count_unread":
            counted.extend(map(int, parameters["users"].strip("{}").split(",")))
            elsewhere(lambda: inbox.notify(1, "news", "Hello"))
        return execute(statement, parameters, *database)

    monkeypatch.setattr(statements, "execute", notified)
    assert reconciled().doubtful == 0
    assert 1 in counted
    assert not Doubt.objects.exists()
    make_wrong(2)
    assert reconciled().repaired.first == {2: 1}
    assert_exact()


def test_a_drift_whose_user_begins_to_move_is_a_doubt(monkeypatch: pytest.MonkeyPatch) -> None:
    """It differed at the first look, and from then on it looks the same as deltas on their way."""
    make_wrong(1)
    with monkeypatch.context() as patched:
        between_looks(patched, lambda: restless(patched))
        report = reconciled()
    assert (report.repaired.first, report.doubtful) == ({}, 1)
    assert reconciled().repaired.first == {1: 1}
    assert_exact()


def test_a_redis_that_forgets_between_two_looks_ends_the_pass(
    valkey: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it forgot is not repaired before the flushers that may hold it are refused: the next pass does that."""
    inbox.notify_many([1, 2], "news", "Hello")
    make_wrong(1)
    between_looks(monkeypatch, valkey.flushdb)
    with pytest.raises(counters.RedisUnreachable, match="lost its memory"):
        reconcile.run_pass()
    sql("UPDATE weir_notifications_reconciliation SET lease_until = now()")
    assert reconciled().repaired.first == {1: 2, 2: 1}
    assert_exact()


# --- once -----------------------------------------------------------------------------------------


def test_one_pass_runs_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass that begins while another runs does nothing; one that begins afterwards works."""
    make_wrong(1)
    others: list[reconcile.PassReport | None] = []
    between_looks(monkeypatch, lambda: others.append(reconcile.run_pass()))
    assert reconciled().repaired.first == {1: 1}
    assert others == [None]
    assert reconciled().repaired.first == {}


def test_a_pass_that_outlives_its_lease_repairs_nothing_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another one takes over and repairs the same drifts; the first then finds the numbers changed."""
    inbox.notify(2, "news", "Hello")
    flush.flush_sealed()
    make_wrong(1, 2, 3)
    monkeypatch.setattr(lease, "LEASE_S", 0.0)
    repair = drift.repair

    def overtaken(drifts: Collection[drift.Drift]) -> set[int]:
        monkeypatch.setattr(drift, "repair", repair)
        assert reconciled().repaired.first == {1: 1, 2: 1, 3: 1}
        return repair(drifts)

    monkeypatch.setattr(drift, "repair", overtaken)
    with capture_logs() as entries:
        late = reconciled()
    assert (late.repaired.first, late.overtaken) == ({}, True)
    assert entries[-1]["event"] == "unread_pass_overtaken"
    assert not Doubt.objects.exists(), "it changes nothing more"
    assert reconciled().repaired.first == {}
    assert_exact()


def test_a_pass_renews_its_lease_before_each_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """So however long it goes on, no other pass begins."""
    make_wrong(1)
    seen = []

    def note() -> None:
        seen.append(Reconciliation.objects.get().lease_until)

    between_looks(monkeypatch, note, note, note)
    assert reconciled().repaired.first == {1: 1}
    assert seen == sorted(set(seen))
    assert len(seen) == 3


@pytest.mark.parametrize("looks", [1, 2, 3])
def test_a_pass_that_lost_its_lease_stops_and_changes_nothing_more(looks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it found is left to the pass that took over, with the doubts and the changes that led to it."""
    make_wrong(1, 2)
    sql("INSERT INTO weir_notifications_doubt (user_id, noted_at) VALUES (2, now())")
    monkeypatch.setattr(page, "USERS", 1)

    def taken() -> None:
        sql("UPDATE weir_notifications_reconciliation SET lease_until = now() + interval '10 seconds'")

    before = Reconciliation.objects.values("changes_until", "changes_until_id", "scanned_until").get()
    with monkeypatch.context() as patched, capture_logs() as entries:
        between_looks(patched, *[lambda: None] * (looks - 1), taken)
        report = reconciled()
    assert (report.repaired.first, report.overtaken) == ({}, True)
    assert [entry["event"] for entry in entries] == ["unread_pass_overtaken"]
    assert Reconciliation.objects.values("changes_until", "changes_until_id", "scanned_until").get() == before
    assert list(Doubt.objects.values_list("pk", flat=True)) == [2]
    assert reconcile.run_pass() is None
    sql("UPDATE weir_notifications_reconciliation SET lease_until = now()")
    assert reconciled().repaired.first == {1: 1, 2: 1}
    assert_exact()


def test_two_repairs_of_the_same_drift_count_once() -> None:
    """Whether or not the user has a stored number, and even if a flush writes it in between."""
    inbox.notify(2, "news", "Hello")
    flush.flush_sealed()
    make_wrong(1, 2, 3)
    drifts = list(drift.look([1, 2, 3]).differing.values())
    assert {(found.user_id, found.drift, found.unread_count) for found in drifts} == {(1, 1, 0), (2, 1, 1), (3, 1, 0)}
    inbox.notify(3, "news", "Hello")
    flush.flush_sealed()
    assert drift.repair(drifts) == {1, 2}
    assert drift.repair(drifts) == set()
    assert kept([1, 2, 3]) == {1: 1, 2: 2, 3: 1}
    assert reconcile.reconcile_users([3]).first == {3: 1}
    assert_exact()


def test_doubts_end_where_a_pass_has_looked_unless_noted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A delta that gets lost while a pass looks is not forgotten when the doubt ends that the pass looked into."""
    no_scan(monkeypatch)
    sql("INSERT INTO weir_notifications_doubt (user_id, noted_at) VALUES (1, now()), (2, now())")
    make_wrong(1)
    between_looks(monkeypatch, lambda: doubts.NOTE_DOUBTS(users=[1]))
    assert reconciled().repaired.first == {1: 1}
    assert list(Doubt.objects.values_list("pk", flat=True)) == [1]
    assert reconciled().looked_at == 1
    assert_exact(2)
