"""Unread numbers against a plain dict, by hypothesis: any order of writes, flush steps, losses, crashes and passes."""

import os
import random
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
import redis
from django.db import connection, transaction
from django.utils import timezone
from hypothesis import HealthCheck
from hypothesis import settings as how
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

from tests.integration.notifications import neighbours
from weir.notifications import counters, flush, inbox, reconcile
from weir.notifications.inbox import read_marks
from weir.notifications.maintenance import forgetting
from weir.notifications.models import Excess, ForgottenUser, Notification
from weir.notifications.reconciliation import drift
from weir.notifications.removal import cap, expiry
from weir.postgres.timeline import gate
from weir.redis_link import calls
from weir.redis_link.keys import Keys
from weir.redis_link.keys import keys as names

USERS = (1, 2, 3)
EXAMPLES, STEPS = (1_000 if "WEIR_FAULTS" in os.environ else 30), 30
TABLES = (
    "notification",
    "unreadcount",
    "flushedepoch",
    "doubt",
    "excess",
    "reconciliation",
    "readmark",
    "forgottenuser",
)
CAP = 2
MOST_MARKED = 2  # three are many
keys = st.sampled_from(("a", "b"))
kinds = st.sampled_from(("news", "sale", "order"))
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
            cursor.execute("TRUNCATE " + ", ".join(f"weir_notifications_{table}" for table in TABLES))
        self.valkey.flushdb()
        gate.forget()  # a stranger may have overwritten the mark
        reconcile.run_pass()
        self.neighbours = neighbours.keys_of_neighbours()
        self.rows: dict[int, tuple[int, bool]] = {}
        self.kinds: dict[int, str] = {}  # of rows
        self.keys: dict[int, str] = {}  # dedupe keys of rows
        self.expired: set[int] = set()
        self.is_well = True  # no delta was ever lost: each flush knows which users are above the cap
        self.wrong: set[int] = set()  # users whose delta died with its process: they wait for a pass

    def ids(self, user: int, *, unread: bool) -> list[int]:
        return [pk for pk, row in self.rows.items() if row == (user, unread)]

    def forget(self, pks: Iterable[int]) -> None:
        for pk in list(pks):
            del self.rows[pk], self.kinds[pk]
            self.keys.pop(pk, None)
            self.expired.discard(pk)

    def some(self, ids: list[int], chance: random.Random) -> list[int]:
        return chance.sample(ids, chance.randint(0, len(ids)))

    def note(self, told: dict[int, int], kind: str) -> None:
        """Tell the model of these new rows, which are unread: their users by their ids."""
        self.rows.update({pk: (user, True) for pk, user in told.items()})
        self.kinds.update(dict.fromkeys(told, kind))

    def unknown(self) -> dict[int, int]:
        """Return the users, by id, of the rows that the model does not know of yet."""
        return dict(Notification.objects.exclude(pk__in=list(self.rows)).values_list("pk", "user_id"))

    @rule(user=users, kind=kinds)
    def notify(self, user: int, kind: str = "news") -> None:
        self.note({inbox.notify(user, kind, "Hello").pk: user}, kind)

    @rule(told=st.lists(users, max_size=4), kind=kinds)
    def notify_many(self, told: list[int], kind: str) -> None:
        assert inbox.notify_many(told, kind, "Hello") == len(set(told))
        self.note(self.unknown(), kind)

    @rule(user=users, kind=kinds, key=keys)
    def notify_once(self, user: int, kind: str, key: str) -> None:
        """The second call with a key returns the first one's row, read or not."""
        having = [pk for pk, of_row in self.keys.items() if of_row == key and self.rows[pk][0] == user]
        row = inbox.notify(user, kind, "Hello", dedupe_key=key)
        assert having in ([], [row.pk])
        if not having:
            self.note({row.pk: user}, kind)
            self.keys[row.pk] = key

    @rule(told=st.lists(users, max_size=4), kind=kinds, key=keys)
    def notify_many_once(self, told: list[int], kind: str, key: str) -> None:
        having = {self.rows[pk][0] for pk, of_row in self.keys.items() if of_row == key}
        assert inbox.notify_many(told, kind, "Hello", dedupe_key=key) == len(set(told) - having)
        new = self.unknown()
        assert set(new.values()) == set(told) - having
        self.note(new, kind)
        self.keys.update(dict.fromkeys(new, key))

    @rule(user=users)
    def notify_what_has_expired(self, user: int) -> None:
        """It is there, and counts if it is unread, until the task has run."""
        for is_read in (False, True):
            row = inbox.notify(user, "sale", "Hello", expires_at=timezone.now() - timedelta(seconds=1))
            self.note({row.pk: user}, "sale")
            if is_read:
                inbox.mark_read(user, [row.pk])
                self.rows[row.pk] = (user, False)
            self.expired.add(row.pk)

    @rule(user=users)
    def expire(self, user: int) -> None:
        self.notify_what_has_expired(user)
        assert expiry.delete_expired() == len(self.expired)
        self.forget(self.expired)

    @rule(user=users)
    def notify_more_than_fits_and_trim(self, user: int) -> None:
        """The oldest unread rows of noted users go; then, if no delta was ever lost, no user is above the cap."""
        for _ in range(CAP + 1):
            self.notify(user)
        read_marks.settle()  # nothing is deleted of a user who has a mark
        flush.flush_sealed()
        noted = set(Excess.objects.values_list("user_id", flat=True))
        beyond = [pk for user in noted for pk in sorted(self.ids(user, unread=True))[:-CAP]]
        assert cap.trim() == len(beyond)
        self.forget(beyond)
        flush.flush_sealed()
        assert cap.trim() == 0
        assert not self.is_well or not Excess.objects.exists()
        assert not self.is_well or all(len(self.ids(user, unread=True)) <= CAP for user in USERS)

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
        marked = inbox.mark_all_read(user)  # if there are many, the number that was shown
        assert marked == len(changed) or (user in self.wrong and len(changed) > MOST_MARKED)
        self.rows.update(dict.fromkeys(changed, (user, False)))

    @rule()
    def settle_read_marks(self) -> None:
        read_marks.settle()

    @rule(user=users)
    def forget_user(self, user: int) -> None:
        forgetting.forget_user(user)
        self.forget(pk for pk, row in self.rows.items() if row[0] == user)

    @rule()
    def finish_forgetting(self) -> None:
        """Notifications until the first run are forgotten with what was left; later ones stay."""
        notes = {note.pk: note for note in ForgottenUser.objects.all()}
        old = [
            row.pk
            for row in Notification.objects.filter(user_id__in=notes)
            if (note := notes[row.user_id]).until_xid is None
            or int(row.changed_xid) < int(note.until_xid)
            or row.created_at < note.forgotten_at
        ]
        forgetting.finish()
        self.forget(old)

    @rule(user=users, chance=chances)
    def mark_unread(self, user: int, chance: random.Random) -> None:
        chosen = self.some(self.ids(user, unread=False), chance)
        assert inbox.mark_unread(user, chosen) == len(chosen)
        self.rows.update(dict.fromkeys(chosen, (user, True)))

    @rule(chance=chances)
    def delete(self, chance: random.Random) -> None:
        chosen = self.some(list(self.rows), chance)
        Notification.objects.filter(pk__in=chosen).delete()
        self.forget(chosen)

    @rule(user=users, chance=chances)
    def give(self, user: int, chance: random.Random) -> None:
        chosen = self.some([pk for pk in self.rows if pk not in self.keys], chance)
        Notification.objects.filter(pk__in=chosen).update(user_id=user)
        self.rows.update({pk: (user, self.rows[pk][1]) for pk in chosen})

    @rule(user=users)
    def roll_back(self, user: int) -> None:
        """Nothing of it happened."""
        with transaction.atomic():
            inbox.notify(user, "news", "Never")
            inbox.notify(user, "news", "Never", dedupe_key="never")
            assert user in self.wrong or inbox.unread_count(user) == len(self.ids(user, unread=True)) + 2
            inbox.mark_all_read(user)
            assert inbox.unread_by_kind(user) == {}
            transaction.set_rollback(True)

    @rule(user=users)
    def die_before_add(self, user: int) -> None:
        """The row is there, its delta is not."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(counters, "add", lambda *_arguments: None)
            self.notify(user)
        self.wrong.add(user)
        self.is_well = False

    @rule(user=users)
    def delete_by_raw_sql(self, user: int) -> None:
        with connection.cursor() as cursor:
            cursor.execute("DELETE FROM weir_notifications_notification WHERE user_id = %s", [user])
        self.is_well = False
        self.forget([pk for pk, row in self.rows.items() if row[0] == user])
        self.wrong.add(user)

    @rule(user=users)
    def miss_add(self, user: int) -> None:
        """Redis cannot be reached, and the process knows it: readers count."""
        self.is_well = False
        with unreachable():
            self.notify(user)
            assert inbox.unread_count(user) == len(self.ids(user, unread=True))

    @rule()
    def flush(self) -> None:
        flush.flush_sealed()

    @rule(target=in_flush)
    def seal_and_pause(self) -> tuple[int, dict[int, int]]:
        sealed = counters.seal()
        return (sealed.epoch, counters.read(sealed.epoch).deltas) if sealed else (0, {})

    @rule(target=applied, read=consumes(in_flush))
    def go_on_and_commit(self, read: tuple[int, dict[int, int]]) -> int:
        """Another flusher may have flushed it long ago, or Redis may have lost it meanwhile."""
        epoch, deltas = read
        if epoch:
            parameters = {"epoch": epoch, "users": list(deltas), "deltas": list(deltas.values()), "cap": CAP}
            flush.APPLY_EPOCH(**parameters)
        return epoch

    @rule(epoch=consumes(applied))
    def go_on_and_drop(self, epoch: int) -> None:
        if epoch:
            counters.drop(epoch)

    @rule(number=st.integers(0, 1), act=st.sampled_from(neighbours.ACTS), user=users, delta=st.integers(-3, 3))
    def another_installation_acts(self, number: int, act: Any, user: int, delta: int) -> None:
        """It has the same Redis and the same users; nothing of ours changes."""
        before = counters.peek(USERS), inbox.unread_counts(USERS)
        with neighbours.being(self.neighbours[number]):
            act(self.valkey, user, delta)
        assert (counters.peek(USERS), inbox.unread_counts(USERS)) == before

    @rule()
    def lose_memory(self) -> None:
        self.is_well = False
        self.valkey.flushdb()

    @rule(member=st.sampled_from(["hello", "", "007", b"\xff"]), delta=st.integers(-3, 3))
    def a_stranger_adds(self, member: str | bytes, delta: int) -> None:
        """A member that is not a user's key changes nothing."""
        before = counters.peek(USERS), inbox.unread_counts(USERS)
        self.valkey.zincrby(names().open, delta, member)
        assert (counters.peek(USERS), inbox.unread_counts(USERS)) == before

    @rule(user=users, score=st.sampled_from(["0.5", "inf", "-inf", "1e300"]))
    def a_stranger_spoils_a_delta(self, user: int, score: str) -> None:
        """It is not noticed before the flush, which makes the user a doubt."""
        self.valkey.zadd(names().open, {str(user): score})
        inbox.unread_counts(USERS)
        flush.flush_sealed()
        self.is_well = False

    @rule(name=st.sampled_from(Keys._fields), text=st.sampled_from(["", "x", "-1", "007", b"\xff", "9" * 18]))
    def a_stranger_overwrites_a_key(self, name: str, text: str | bytes) -> None:
        """It counts as lost from then on, even before the flush that sees it."""
        self.valkey.set(getattr(names(), name), text)
        self.numbers_are_right()
        calls.forget()  # the outage
        flush.flush_sealed()
        self.is_well = False

    @rule(target=snapshots)
    def take_snapshot(self) -> dict[bytes, bytes]:
        return {key: self.valkey.dump(key) for key in self.valkey.keys("{weir:*")}  # type: ignore[misc]

    @rule(snapshot=consumes(snapshots))
    def restart_from_snapshot(self, snapshot: dict[bytes, bytes]) -> None:
        """As the next pass would see it: the server's run has changed."""
        self.is_well = False
        self.valkey.flushdb()
        for key, value in snapshot.items():
            self.valkey.restore(key, 0, value)
        if known := counters.peek(USERS).incarnation:
            counters.open_epoch(flush.highest_epoch(), replacing=known)

    @rule()
    def reconcile(self) -> None:
        """One pass finds what stands still, whatever it was; users of whom only Redis knows are found after a flush."""
        flush.flush_sealed()
        report = reconcile.run_pass()
        assert report is not None
        assert report.trusted
        self.wrong.clear()
        assert drift.look(USERS) == drift.DriftLook()

    @invariant()
    def numbers_are_right(self) -> None:
        truth = Counter(user for user, unread in self.rows.values() if unread)
        numbers = inbox.unread_counts(USERS)
        for user in USERS:
            assert user in self.wrong or numbers[user] == truth[user]

    @invariant()
    def numbers_by_kind_are_those_of_the_rows(self) -> None:
        """Whatever was lost, because only rows are counted."""
        for user in USERS:
            unread = Counter(self.kinds[pk] for pk in self.ids(user, unread=True))
            assert inbox.unread_by_kind(user) == unread


@contextmanager
def unreachable() -> Iterator[None]:
    """Make Redis unreachable."""

    def refuse(*_arguments: Any) -> Any:
        raise counters.RedisUnreachable("switched off")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(calls, "ask", refuse)
        yield


@pytest.mark.faults
@pytest.mark.usefixtures("known_again")  # a stranger overwrites the mark
def test_numbers_equal_a_plain_dict(valkey: redis.Redis, monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    """Whatever happens, in any order, numbers are those of the rows; a pass repairs what a crash has lost."""
    monkeypatch.setattr(drift, "APART_S", 0.0)
    monkeypatch.setattr(inbox.writing, "MOST_MARKED", MOST_MARKED)
    settings.WEIR_UNREAD_CAP = CAP
    UnreadNumbers.valkey = valkey
    run_state_machine_as_test(
        UnreadNumbers,
        settings=how(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
