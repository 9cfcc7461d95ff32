"""Drift: by how much users' numbers differ from the count of their unread rows, and how that is repaired.

A difference need not be drift. A transaction may have committed whose delta is still on its way to Redis, and that
looks the same as a transaction whose process died in between. So a difference counts as drift when it was the same in
four looks, a second apart, and nothing moved: neither rows nor number. For a user who moves this cannot be decided: the
user becomes a doubt, and readers count the user's rows until a later pass can decide. A process that is stopped for
longer than four looks take, and sends its delta late, notes a doubt itself.
"""

import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from notifications import counters
from postgres import statements

_query = partial(statements.run, "notifications")

LOOKS, APART_S = 4, 1.0
TRIES = 3  # for numbers that change while they are looked at


class CountedUser(NamedTuple):
    """A user's stored number, with its epoch, and the count of the user's unread rows, at one moment."""

    user_id: int
    unread_count: int
    epoch: int
    rows: int


class RepairedUser(NamedTuple):
    """A user whose stored number was what it was when the drift was found."""

    user_id: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Drift:
    """A number that differs from its rows by `drift`, with all that was compared: two that are equal have not moved."""

    user_id: int
    drift: int
    rows: int
    unread_count: int
    epoch: int
    deltas: dict[int, int]  # by epoch


@dataclass(frozen=True, kw_only=True, slots=True)
class Look:
    """The users whose numbers differ from their rows, and those whose deltas changed meanwhile; others are right."""

    differing: dict[int, Drift] = field(default_factory=dict)
    moving: set[int] = field(default_factory=set)


def look(user_ids: Iterable[int]) -> Look:
    """Compare these users' numbers with their rows, each at one moment. Raises `counters.Unreachable`."""
    users, seen = list(user_ids), Look()
    for start in range(0, len(users), counters.AT_ONCE):
        moving: Collection[int] = users[start : start + counters.AT_ONCE]
        for _ in range(TRIES):
            moving = _look_once(moving, seen.differing)
            if not moving:
                break
        seen.moving.update(moving)
    return seen


def stands(differing: dict[int, Drift]) -> tuple[list[Drift], set[int]]:
    """Look again at the users who differ: return the drifts that stayed the same, and the users who are undecided.

    Takes a few seconds, and none where nothing differs. Raises `counters.Unreachable`.
    """
    standing, unsure = dict(differing), set[int]()
    for _ in range(LOOKS - 1):
        if not standing:
            break
        time.sleep(APART_S)
        again = look(standing)
        unsure |= again.moving | {user_id for user_id, found in again.differing.items() if found != standing[user_id]}
        standing = {user_id: found for user_id, found in again.differing.items() if user_id not in unsure}
    return list(standing.values()), unsure


def repair(drifts: Collection[Drift]) -> set[int]:
    """Add each drift to its stored number, if that is still what it was; return the users whose numbers were."""
    parameters = {
        "users": [drift.user_id for drift in drifts],
        "drifts": [drift.drift for drift in drifts],
        "unread_counts": [drift.unread_count for drift in drifts],
        "epochs": [drift.epoch for drift in drifts],
    }
    # Two transactions: one that locks some users in order, and then others, could deadlock with a flush.
    repaired = {row.user_id for row in _query("drift/repair", parameters, row=RepairedUser)}
    missing = [drift for drift in drifts if drift.user_id not in repaired and not drift.epoch]
    parameters = {"users": [drift.user_id for drift in missing], "drifts": [drift.drift for drift in missing]}
    return repaired | {row.user_id for row in _query("drift/repair_missing", parameters, row=RepairedUser)}


def _look_once(user_ids: Collection[int], differing: dict[int, Drift]) -> list[int]:
    """Add the users who differ to `differing`; return those whose deltas changed during the look.

    Their deltas and their rows are of two moments, and cannot be compared.
    """
    users = list(user_ids)
    before = counters.peek(users)
    if not before.incarnation:
        raise counters.Unreachable("Redis has lost its memory.")
    rows = statements.run_within("notifications", "drift/look", {"users": users}, row=CountedUser)
    after = counters.peek(users)
    moving = []
    for row in rows:
        if before.of(row.user_id) != after.of(row.user_id):
            moving.append(row.user_id)
        elif drift := row.rows - row.unread_count - before.after(row.epoch, row.user_id):
            differing[row.user_id] = Drift(
                user_id=row.user_id,
                drift=drift,
                rows=row.rows,
                unread_count=row.unread_count,
                epoch=row.epoch,
                deltas=before.of(row.user_id),
            )
    return moving
