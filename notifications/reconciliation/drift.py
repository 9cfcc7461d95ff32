"""Drift: by how much users' numbers differ from the count of their unread rows, and how drift is repaired.

A difference need not be drift. The delta of a committed transaction may still be on its way to Redis. This looks the
same as a transaction whose process died before it sent the delta. So a difference counts as drift only if it was the
same in four looks, a second apart, and neither rows nor number changed between them. If a user's number differs, and
something changed, this cannot be decided. Then the user becomes a doubt, and readers count the user's rows until a
later pass can decide. A process that is stopped for longer than four looks take, and sends its delta late, notes a
doubt itself.
"""

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from django.db import transaction

from weir.notifications import counters, user_keys
from weir.notifications.user_keys import UserKey
from weir.postgres import bounded
from weir.postgres.statements import Statement

LOOKS, APART_S = 4, 1.0
TRIES = 5  # to look at users whose deltas change in the milliseconds between two peeks


class StoredNumber(NamedTuple):
    """A user's stored number, with its epoch."""

    user_id: UserKey
    unread_count: int
    epoch: int


class CountedRows(NamedTuple):
    """The count of a user's unread rows."""

    user_id: UserKey
    rows: int


COUNT_UNREAD = Statement("count_unread", row=CountedRows, commits=False)
ONE_SNAPSHOT = Statement("one_snapshot", commits=False)
REPAIR = Statement("repair", returns=UserKey, commits=True)
STORED_UNREAD = Statement("stored_unread", row=StoredNumber, commits=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class Drift:
    """A number that differs from its rows by `drift`, with all compared values: if two are equal, nothing changed."""

    user_id: UserKey
    drift: int
    rows: int
    unread_count: int
    epoch: int
    deltas: dict[int, int]  # by epoch


@dataclass(kw_only=True, slots=True)
class DriftLook:
    """Users whose numbers differ from their rows, and users whose deltas changed meanwhile; all others are right."""

    differing: dict[UserKey, Drift] = field(default_factory=dict)
    moving: set[UserKey] = field(default_factory=set)
    ended_at: float = field(default=0.0, compare=False)  # time.monotonic() at the end of the look

    def add(self, other: "DriftLook") -> None:
        """Add a look that followed this one, so that the two become one."""
        self.differing.update(other.differing)
        self.moving.update(other.moving)
        self.ended_at = other.ended_at


def _nothing() -> None:
    pass


def look(
    user_ids: Iterable[UserKey], *, incarnation: str = "", before_each: Callable[[], None] = _nothing
) -> DriftLook:
    """Compare these users' numbers with their rows, 5,000 users at a time, and each user as of one moment.

    Raises `counters.RedisUnreachable`, also if an `incarnation` is given and Redis has another one.
    """
    users, seen = list(user_ids), DriftLook()
    for start in range(0, len(users), counters.AT_ONCE):
        before_each()
        moving: Collection[UserKey] = users[start : start + counters.AT_ONCE]
        for _ in range(TRIES):
            moving = _look_once(moving, incarnation, seen.differing)
            if not moving:
                break
        seen.moving.update(moving)
    seen.ended_at = time.monotonic()
    return seen


def stands(
    looks: Iterable[DriftLook], *, incarnation: str = "", before_each: Callable[[], None] = _nothing
) -> tuple[list[Drift], set[UserKey]]:
    """Look again at the users who differ; return the drifts that stayed the same, and the users who are undecided.

    Takes a few seconds, or no time if no user differs. If there are many users, the time between two looks at a user is
    spent on looking at the others. Raises `counters.RedisUnreachable`.
    """
    standing, unsure = [seen for seen in looks if seen.differing], set[UserKey]()
    for _ in range(LOOKS - 1):
        for place, seen in enumerate(standing):
            _wait_until_apart(seen.ended_at)
            again = look(seen.differing, incarnation=incarnation, before_each=before_each)
            unsure |= again.moving
            unsure |= {user_id for user_id, found in again.differing.items() if found != seen.differing[user_id]}
            same = {user_id: found for user_id, found in again.differing.items() if user_id not in unsure}
            standing[place] = DriftLook(differing=same, ended_at=again.ended_at)
        standing = [seen for seen in standing if seen.differing]
    return [found for seen in standing for found in seen.differing.values()], unsure


def _wait_until_apart(looked_at: float) -> None:
    time.sleep(max(0.0, looked_at + APART_S - time.monotonic()))


def repair(drifts: Collection[Drift]) -> set[UserKey]:
    """Add each drift to its stored number, if this has not changed; return the users whose numbers were repaired."""
    # Two transactions, because one that locks some users in order, and then others, could deadlock with a flush.
    repaired = _repair(drifts)
    missing = [found for found in drifts if found.user_id not in repaired and not found.epoch]
    return repaired | _repair(missing, had=False)


def _repair(drifts: Collection[Drift], *, had: bool = True) -> set[UserKey]:
    """Repair the numbers of users who had a stored number, or (not `had`) of users who had none."""
    return set(
        REPAIR(
            users=user_keys.array(found.user_id for found in drifts),
            drifts=[found.drift for found in drifts],
            unread_counts=[found.unread_count if had else None for found in drifts],
            epochs=[found.epoch if had else None for found in drifts],
        )
    )


def _look_once(user_ids: Collection[UserKey], incarnation: str, differing: dict[UserKey, Drift]) -> list[UserKey]:
    """Add the users who differ to `differing`; return the users whose deltas changed between two peeks.

    Stored numbers and rows are read from one snapshot, which is taken between the two peeks. The rows are counted after
    both peeks. So the peeks are milliseconds apart, however many rows there are.
    """
    users = list(user_ids)
    before = _peek(users, incarnation)
    with transaction.atomic(durable=True):
        ONE_SNAPSHOT()
        bounded.without_limit()  # otherwise a user whose rows take longer to count than the limit could never be judged
        stored = {row.user_id: row for row in STORED_UNREAD(users=user_keys.array(users))}
        moving = _moved(before, _peek(users, incarnation))
        still = [user_id for user_id in users if user_id not in moving] if moving else users
        counted = COUNT_UNREAD(users=user_keys.array(still))
    for user_id, rows in counted:
        _, unread_count, epoch = stored.get(user_id, (user_id, 0, 0))
        if drift := rows - unread_count - before.after(epoch, user_id):
            differing[user_id] = Drift(
                user_id=user_id,
                drift=drift,
                rows=rows,
                unread_count=unread_count,
                epoch=epoch,
                deltas=before.of(user_id),
            )
    return list(moving)


def _peek(users: Sequence[UserKey], incarnation: str) -> counters.Peek:
    seen = counters.peek(users)
    if not seen.incarnation or (incarnation and seen.incarnation != incarnation):
        raise counters.RedisUnreachable("Redis has lost its memory.")
    return seen


def _moved(before: counters.Peek, after: counters.Peek) -> set[UserKey]:
    """Return the users whose deltas differ in the second peek."""
    if before.deltas == after.deltas:
        return set()
    return {
        user_id
        for epoch in before.deltas.keys() | after.deltas.keys()
        for user_id, _ in before.deltas.get(epoch, {}).items() ^ after.deltas.get(epoch, {}).items()
    }
