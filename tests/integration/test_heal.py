"""Heal finds every number that is wrong, of any cause, and repairs it once; what is only on its way it leaves alone."""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import redis
from django.db import connection
from structlog.testing import capture_logs

from notifications import changes, counters, drift, flush, heal, inbox, outages
from notifications.heal import HealReport
from notifications.models import Doubt, Healing, Notification
from tests.integration.unread import MARKS, assert_exact, kept, redis_out_of_reach, unread_rows
from workers import tasks

pytestmark = MARKS

objects = Notification.objects


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have heal look at changes of any age, again and again without a pause."""
    monkeypatch.setattr(heal, "SETTLED_S", 0.0)
    monkeypatch.setattr(drift, "APART_S", 0.0)


@contextmanager
def lost() -> Iterator[None]:
    """Have the process die between COMMIT and `add`, as far as Redis can tell."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(counters, "add", lambda _deltas: None)
        yield


def no_scrub(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have heal look at doubts and changes only."""
    monkeypatch.setattr(heal, "_scrub", lambda after, _seconds: ([], after))


def sql(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)


def healed() -> HealReport:
    report = heal.heal()
    assert report
    return report


def make_wrong(*users: int) -> None:
    """Have the numbers of these users be too low by one."""
    with lost():
        inbox.notify_many(users, "news", "lost")


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
    """The rows say when they changed; once that is settled heal counts their users' rows."""
    no_scrub(monkeypatch)
    rows = [inbox.notify(1, "news", "Hello"), inbox.notify(2, "news", "Hello"), inbox.notify(1, "news", "Hello")]
    inbox.mark_read(1, [rows[2].pk])
    if flushed:
        flush.flush_sealed()
    assert healed().repaired == {}
    rows[0].read_at = rows[0].created_at
    with lost():
        change(rows)
    monkeypatch.setattr(heal, "SETTLED_S", 30.0)
    assert healed().repaired == {}
    monkeypatch.setattr(heal, "SETTLED_S", 0.0)
    assert healed().repaired == drifts
    assert_exact()
    assert healed().looked_at == 0


def delete_unseen(valkey: redis.Redis) -> None:  # noqa: ARG001  as the others
    with lost():
        objects.filter(user_id=1).delete()


def hide_behind_a_live_delta(valkey: redis.Redis) -> None:
    delete_unseen(valkey)
    inbox.notify(1, "news", "makes rows and stored number the same again")


def add_of_nothing(_: redis.Redis) -> None:
    counters.add({5: 3})


@pytest.mark.parametrize(
    "damage",
    [
        delete_unseen,
        hide_behind_a_live_delta,
        add_of_nothing,
        lambda _: sql("UPDATE notifications_notification SET read_at = now() WHERE user_id = 1"),
        lambda _: sql("DELETE FROM notifications_notification"),
        lambda _: sql("TRUNCATE notifications_notification"),
        lambda _: sql("INSERT INTO notifications_notification (user_id, kind, title, body, url) "
                      "VALUES (9, '', '', '', '')"),
        lambda _: sql("UPDATE notifications_unreadcount SET unread_count = 99 WHERE user_id = 2"),
        lambda _: sql("DELETE FROM notifications_unreadcount WHERE user_id = 2"),
        lambda valkey: (inbox.notify_many([1, 2, 3], "news", "evicted"), valkey.delete("{unread}:open")),
    ],
    ids=["deleted", "hidden", "added", "SQL update", "SQL delete", "truncate", "SQL insert", "number", "no number",
         "evicted"],
)  # fmt: skip
def test_scrub_finds_what_leaves_no_trace(
    damage: Callable[[redis.Redis], Any], valkey: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Deleted rows, raw SQL, numbers set by hand, an evicted key: whatever the cause, the next round repairs it."""
    inbox.notify_many([1, 2], "news", "Hello")
    flush.flush_sealed()
    damage(valkey)
    monkeypatch.setattr(heal, "SETTLED_S", 30.0)
    rows = unread_rows(3, 5, 9)
    assert kept(rows) != rows
    with capture_logs() as entries:
        repaired = healed().repaired
    assert repaired
    assert entries == [
        {"event": "unread_drift_repaired", "log_level": "warning", "users": len(repaired), "first": repaired}
    ]
    assert_exact(1, 2, 3, 5, 9)


# --- what is left alone ---------------------------------------------------------------------------


def between_looks(monkeypatch: pytest.MonkeyPatch, *steps: Callable[[], Any]) -> None:
    """Have these happen one after the other, each between two looks of heal."""
    pauses = iter(steps)
    monkeypatch.setattr(drift, "time", SimpleNamespace(sleep=lambda _: next(pauses, lambda: None)()))


@pytest.mark.parametrize("looks", [1, 2, 3])
def test_a_delta_that_is_on_its_way_is_not_repaired(looks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """It arrives before the last look, so the number is right then, and nobody is in doubt."""
    make_wrong(1)
    between_looks(monkeypatch, *[lambda: None] * (looks - 1), lambda: counters.add({1: 1}))
    assert healed().repaired == {}
    assert not Doubt.objects.exists()
    assert_exact()


def test_looks_are_a_second_apart_and_reach_beyond_a_late_delta(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who sends a delta so late that heal may have repaired it, notes a doubt about it: it looks for twice as long."""
    monkeypatch.undo()
    pauses: list[float] = []
    monkeypatch.setattr(drift, "time", SimpleNamespace(sleep=pauses.append))
    make_wrong(1)
    assert heal.reconcile() == {1: 1}
    assert sum(pauses) >= 2 * changes.LATE_S


def test_a_drift_that_changes_while_it_is_looked_at_is_left_to_the_next_heal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody can say which part of it stays, so the user is in doubt, and is looked at again."""
    no_scrub(monkeypatch)
    make_wrong(1)
    between_looks(monkeypatch, lambda: make_wrong(1))
    report = healed()
    assert (report.repaired, report.doubtful) == ({}, 1)
    assert inbox.unread_count(1) == 2
    assert healed().repaired == {1: 2}
    assert_exact()


def test_deltas_on_their_way_that_look_like_a_drift_together_are_not_repaired(monkeypatch: pytest.MonkeyPatch) -> None:
    """At each look another one is missing, always of the same size: rows moved, so that is a doubt, and rows count."""

    def arrive_and_begin_another() -> None:
        counters.add({1: 1})
        make_wrong(1)

    make_wrong(1)
    between_looks(monkeypatch, *[arrive_and_begin_another] * 3)
    assert healed().repaired == {}
    assert list(Doubt.objects.values_list("pk", flat=True)) == [1]
    assert inbox.unread_count(1) == Notification.objects.count()
    counters.add({1: 1})
    assert healed().repaired == {}
    assert_exact()


def test_a_drift_of_somebody_who_moves_is_a_doubt_until_it_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody who is told something all the time is shown the count of rows, and repaired when there is a pause."""
    make_wrong(1)
    with monkeypatch.context() as patched:
        between_looks(patched, *[lambda: (inbox.notify(1, "news", "Hello"), flush.flush_sealed())] * 3)
        assert healed().repaired == {}
    assert inbox.unread_count(1) == Notification.objects.count()
    assert healed().repaired == {1: 1}
    assert_exact()


def test_a_user_whose_deltas_never_rest_is_in_doubt_and_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look sees two moments where deltas arrive in between; after some tries heal leaves it to the next one."""
    peek = counters.peek

    def restless(users: Collection[int]) -> counters.Peek:
        inbox.notify(1, "news", "Hello")
        return peek(users)

    inbox.notify_many([1, 2], "news", "Hello")
    with monkeypatch.context() as patched:
        patched.setattr(counters, "peek", restless)
        report = healed()
    assert (report.repaired, report.doubtful) == ({}, 1)
    assert list(Doubt.objects.values_list("pk", flat=True)) == [1]
    assert healed().doubtful == 0
    assert_exact()


# --- once -----------------------------------------------------------------------------------------


def test_one_heals_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who comes while another one is at work has nothing to do; afterwards anybody may."""
    make_wrong(1)
    others: list[HealReport | None] = []
    between_looks(monkeypatch, lambda: others.append(heal.heal()))
    assert healed().repaired == {1: 1}
    assert others == [None]
    assert healed().repaired == {}


def test_a_heal_that_outlives_its_lease_repairs_nothing_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another one takes over and repairs the same drifts; who repairs second finds the numbers changed."""
    inbox.notify(2, "news", "Hello")
    flush.flush_sealed()
    make_wrong(1, 2, 3)
    monkeypatch.setattr(heal, "LEASE_S", 0.0)
    repair = drift.repair

    def overtaken(drifts: Collection[drift.Drift]) -> set[int]:
        monkeypatch.setattr(drift, "repair", repair)
        assert healed().repaired == {1: 1, 2: 1, 3: 1}
        return repair(drifts)

    monkeypatch.setattr(drift, "repair", overtaken)
    late = healed()
    assert (late.repaired, late.doubtful) == ({}, 3)
    assert healed().repaired == {}
    assert_exact()


def test_two_repairs_of_the_same_drift_count_once() -> None:
    """Whether or not the user has a stored number, and also if a flush writes it in between."""
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
    assert heal.reconcile([3]) == {3: 1}
    assert_exact()


def test_doubts_end_where_heal_has_looked_unless_noted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A delta that gets lost while heal looks is not forgotten with the doubt that it looked into."""
    no_scrub(monkeypatch)
    sql("INSERT INTO notifications_doubt (user_id, noted_at) VALUES (1, now()), (2, now())")
    make_wrong(1)
    between_looks(monkeypatch, lambda: heal._run("note_doubts", {"users": [1]}))
    assert healed().repaired == {1: 1}
    assert list(Doubt.objects.values_list("pk", flat=True)) == [1]
    assert healed().looked_at == 1
    assert_exact(2)


def slow_scrub(monkeypatch: pytest.MonkeyPatch, *, users: int, rows: int = 500_000) -> None:
    """Have each heal come only one slice further."""
    monkeypatch.setattr(heal, "AT_ONCE", users)
    monkeypatch.setattr(heal, "ROWS_AT_ONCE", rows)
    monkeypatch.setattr(heal, "SCRUB_S", -1.0)
    monkeypatch.setattr(heal, "SETTLED_S", 30.0)


def test_scrub_goes_on_where_it_stopped_and_begins_anew_after_a_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each heal takes the next slice of all users; after the last, how long a round took is told."""
    objects.bulk_create(Notification(user_id=user_id, kind="news") for user_id in range(1, 8))
    flush.flush_sealed()
    slow_scrub(monkeypatch, users=2)
    sql("UPDATE notifications_unreadcount SET unread_count = 5")
    rounds = [healed() for _ in range(4)]
    assert [set(report.repaired) for report in rounds] == [{1, 2}, {3, 4}, {5, 6}, {7}]
    took = [report.round_took for report in rounds]
    assert took[0] == took[1] == took[2]
    assert took[3]
    assert took[3] != took[2]
    sql("UPDATE notifications_unreadcount SET unread_count = 5")
    assert set(healed().repaired) == {1, 2}
    assert Healing.objects.get().scrubbed_until == 2


@pytest.mark.parametrize("users", [1, 2, 3, 100])
@pytest.mark.parametrize("rows", [1, 3, 4, 100])
def test_slices_go_through_all_users_once(users: int, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those without a number, those without rows, and those who have more rows than a slice."""
    inbox.notify_many([-3, 1, 4, 4, 6, 9], "news", "Hello")
    flush.flush_sealed()
    objects.filter(user_id=6).delete()
    with lost():
        for _ in range(5):
            inbox.notify_many([4, 5], "news", "Hello")
    slow_scrub(monkeypatch, users=users, rows=rows)
    slices = list(heal._slices(heal.FIRST_USER))
    assert sum(part.users for part in slices) == 6
    assert [user_id for part in slices for user_id in sorted(part.differing)] == [4, 5, 6]
    ends = [part.last_user for part in slices]
    assert ends == sorted(set(ends))
    assert ends[-1] == heal.LAST_USER


def test_many_changes_are_taken_in_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them in one heal; those of one moment stay together, and none is looked at twice."""
    no_scrub(monkeypatch)
    healed()
    slow_scrub(monkeypatch, users=2)
    monkeypatch.setattr(heal, "SETTLED_S", 0.0)
    make_wrong(1, 2, 3)
    make_wrong(3)
    make_wrong(4)
    make_wrong(5)
    assert healed().repaired == {1: 1, 2: 1, 3: 2, 4: 1, 5: 1}
    assert healed().looked_at == 0


def test_more_changes_than_a_heal_takes_are_left_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """A heal ends before its lease does, and the next goes on behind the changes that it took."""
    no_scrub(monkeypatch)
    healed()
    monkeypatch.setattr(heal, "AT_ONCE", 1)
    monkeypatch.setattr(heal, "MOST_USERS", 2)
    for user_id in range(1, 6):
        make_wrong(user_id)
    assert [set(healed().repaired) for _ in range(4)] == [{1, 2}, {3, 4}, {5}, set()]
    assert_exact()


def test_a_heal_that_fails_is_done_again_by_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it looked at without an answer is looked at again once its lease has run out."""
    inbox.notify_many([1, 2], "news", "Hello")
    flush.flush_sealed()
    sql("UPDATE notifications_unreadcount SET unread_count = 5 WHERE user_id = 2")
    make_wrong(1)

    def away(_users: object) -> None:
        raise counters.Unreachable("gone")

    with monkeypatch.context() as patched:
        patched.setattr(counters, "peek", away)
        with pytest.raises(counters.Unreachable, match="gone"):
            heal.heal()
    assert heal.heal() is None
    sql("UPDATE notifications_healing SET lease_until = now()")
    assert healed().repaired == {1: 1, 2: -4}
    assert_exact()


def test_the_periodic_tasks_wait_an_outage_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Redis they do nothing, say so once a minute, and leave the work to a later tick."""
    monkeypatch.setattr(outages, "_quiet_until", {})
    make_wrong(1)
    with redis_out_of_reach(tmp_path), capture_logs() as entries:
        for _ in range(3):
            tasks.flush_unread()
            tasks.heal_unread()
    assert [entry["event"] for entry in entries] == ["unread_not_flushed", "unread_not_healed"]
    tasks.heal_unread()
    tasks.flush_unread()
    assert_exact(1)
