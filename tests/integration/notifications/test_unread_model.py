"""Unread numbers against a plain dict, by hypothesis: any order of writes, flush steps, losses, crashes and passes."""

import os
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import redis
from django.db import connection, transaction
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from notifications import counters, drift, flush, inbox, reconcile
from notifications.models import Notification
from postgres import statements

USERS = (1, 2, 3)
EXAMPLES, STEPS = (1_000 if "WEIR_FAULTS" in os.environ else 60), 30
TABLES = ("notification", "unreadcount", "flushedepoch", "doubt", "reconciliation")
users = st.sampled_from(USERS)
chances = st.integers(0, 2**32).map(random.Random)


class UnreadNumbers(RuleBasedStateMachine):
    """The model is `rows`: each notification's user, and whether it is unread. All numbers follow from it."""

    valkey: redis.Redis
    in_flush: Bundle[tuple[int, dict[int, int]]] = Bundle("in_flush")  # flushers that have read an epoch, and paused
    applied: Bundle[int] = Bundle("applied")  # flushers that have committed, and paused
    snapshots: Bundle[dict[bytes, bytes]] = Bundle("snapshots")

    @initialize()
    def begin(self) -> None:
        with connection.cursor() as cursor:
            cursor.execute("TRUNCATE " + ", ".join(f"notifications_{table}" for table in TABLES))
        self.valkey.flushall()
        reconcile.run_pass()
        self.rows: dict[int, tuple[int, bool]] = {}
        self.wrong: set[int] = set()  # users whose delta died with its process: they wait for a pass

    def ids(self, user: int, *, unread: bool) -> list[int]:
        return [pk for pk, row in self.rows.items() if row == (user, unread)]

    def some(self, ids: list[int], chance: random.Random) -> list[int]:
        return chance.sample(ids, chance.randint(0, len(ids)))

    @rule(user=users)
    def notify(self, user: int) -> None:
        self.rows[inbox.notify(user, "news", "Hello").pk] = (user, True)

    @rule(told=st.lists(users, max_size=4))
    def notify_many(self, told: list[int]) -> None:
        before = set(self.rows)
        assert inbox.notify_many(told, "news", "Hello") == len(set(told))
        new = Notification.objects.exclude(pk__in=before).values_list("pk", "user_id")
        self.rows.update({pk: (user, True) for pk, user in new})

    @rule(user=users, chance=chances)
    def mark_read(self, user: int, chance: random.Random) -> None:
        """Of the ids, some are unread and the user's; others are read already, or another user's."""
        mine, others = self.some(self.ids(user, unread=True), chance), self.some(list(self.rows), chance)
        changed = {pk for pk in (*mine, *others) if self.rows[pk] == (user, True)}
        assert inbox.mark_read(user, [*mine, *others]) == len(changed)
        self.rows.update(dict.fromkeys(changed, (user, False)))

    @rule(user=users)
    def mark_all_read(self, user: int) -> None:
        changed = self.ids(user, unread=True)
        assert inbox.mark_all_read(user) == len(changed)
        self.rows.update(dict.fromkeys(changed, (user, False)))

    @rule(user=users, chance=chances)
    def mark_unread(self, user: int, chance: random.Random) -> None:
        chosen = self.some(self.ids(user, unread=False), chance)
        assert inbox.mark_unread(user, chosen) == len(chosen)
        self.rows.update(dict.fromkeys(chosen, (user, True)))

    @rule(chance=chances)
    def delete(self, chance: random.Random) -> None:
        chosen = self.some(list(self.rows), chance)
        Notification.objects.filter(pk__in=chosen).delete()
        for pk in chosen:
            del self.rows[pk]

    @rule(user=users, chance=chances)
    def give(self, user: int, chance: random.Random) -> None:
        chosen = self.some(list(self.rows), chance)
        Notification.objects.filter(pk__in=chosen).update(user_id=user)
        self.rows.update({pk: (user, self.rows[pk][1]) for pk in chosen})

    @rule(user=users)
    def roll_back(self, user: int) -> None:
        """Nothing of it happened."""
        with transaction.atomic():
            inbox.notify(user, "news", "Never")
            inbox.mark_all_read(user)
            transaction.set_rollback(True)

    @rule(user=users)
    def die_before_add(self, user: int) -> None:
        """The row is there, its delta is not."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(counters, "add", lambda *_arguments: None)
            self.notify(user)
        self.wrong.add(user)

    @rule(user=users)
    def delete_by_raw_sql(self, user: int) -> None:
        with connection.cursor() as cursor:
            cursor.execute("DELETE FROM notifications_notification WHERE user_id = %s", [user])
        for pk in [pk for pk, row in self.rows.items() if row[0] == user]:
            del self.rows[pk]
        self.wrong.add(user)

    @rule(user=users)
    def miss_add(self, user: int) -> None:
        """Redis is out of reach, which is known: readers count."""
        with unreachable():
            self.notify(user)
            assert inbox.unread_count(user) == len(self.ids(user, unread=True))

    @rule()
    def flush(self) -> None:
        flush.flush_sealed()

    @rule(target=in_flush)
    def seal_and_pause(self) -> tuple[int, dict[int, int]]:
        sealed = counters.seal()
        return (sealed.epoch, counters.read(sealed.epoch)) if sealed else (0, {})

    @rule(target=applied, read=consumes(in_flush))
    def go_on_and_commit(self, read: tuple[int, dict[int, int]]) -> int:
        """Another flusher may have flushed it long ago, or Redis may have lost it meanwhile."""
        epoch, deltas = read
        if epoch:
            parameters = {"epoch": epoch, "users": list(deltas), "deltas": list(deltas.values())}
            statements.run("notifications", "flush/apply", parameters)
        return epoch

    @rule(epoch=consumes(applied))
    def go_on_and_drop(self, epoch: int) -> None:
        if epoch:
            counters.drop(epoch)

    @rule()
    def lose_memory(self) -> None:
        self.valkey.flushall()

    @rule(target=snapshots)
    def take_snapshot(self) -> dict[bytes, bytes]:
        return {key: self.valkey.dump(key) for key in self.valkey.keys("{unread}:*")}  # type: ignore[misc]

    @rule(snapshot=consumes(snapshots))
    def restart_from_snapshot(self, snapshot: dict[bytes, bytes]) -> None:
        """As the next pass would see it: the server's run is another one."""
        self.valkey.flushall()
        for key, value in snapshot.items():
            self.valkey.restore(key, 0, value)
        if known := counters.peek(USERS).incarnation:
            counters.open_epoch(flush.highest_epoch(), replacing=known)

    @rule()
    def reconcile(self) -> None:
        """One pass finds what stands still, whatever it was."""
        report = reconcile.run_pass()
        assert report is not None
        assert report.trusted
        self.wrong.clear()
        assert drift.look(USERS) == drift.Look()

    @invariant()
    def numbers_are_right(self) -> None:
        truth = Counter(user for user, unread in self.rows.values() if unread)
        numbers = inbox.unread_counts(USERS)
        for user in USERS:
            assert user in self.wrong or numbers[user] == truth[user]


@contextmanager
def unreachable() -> Iterator[None]:
    """Have Redis out of reach."""

    def refuse(*_arguments: Any) -> Any:
        raise counters.Unreachable("switched off")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counters._Redis, "__enter__", refuse)
        yield


@pytest.mark.faults
def test_numbers_equal_a_plain_dict(valkey: redis.Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever happens in whatever order, numbers are those of the rows; a pass repairs what a crash took."""
    monkeypatch.setattr(drift, "APART_S", 0.0)
    UnreadNumbers.valkey = valkey
    run_state_machine_as_test(
        UnreadNumbers,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
