"""Drift: by how much users' numbers differ from the count of their unread rows, and how that is mended.

A difference need not be drift. A transaction may have committed whose delta is still on its way to Redis, and it
cannot be told apart from one whose process died in between; and under load there is always one. So a difference
counts as drift when it was the same in four looks, a second apart, whatever else changed meanwhile: what is on its way
arrives, what is lost stays. A process that is stopped for longer than that, and sends its delta late, notes a doubt
about these users, and heal looks at them again.
"""

import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from notifications import counters
from postgres import statements

LOOKS, APART_S = 4, 1.0
TRIES = 3  # for numbers that change while they are looked at


@dataclass(frozen=True, kw_only=True, slots=True)
class Drift:
    """A number that is wrong by `drift`, and the stored number that it was found with."""

    user_id: int
    drift: int
    unread_count: int
    epoch: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Look:
    """Whose numbers differ from their rows, and whose changed while they were looked at; all others are right."""

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
    """Look at what differs again and again: return the drifts that stood, and the users about whom one cannot say.

    Takes a few seconds, and none where nothing differs.
    """
    standing, unsure = dict(differing), set[int]()
    for _ in range(LOOKS - 1):
        if not standing:
            break
        time.sleep(APART_S)
        again = look(standing)
        for user_id, drift in list(standing.items()):
            found = again.differing.get(user_id)
            if user_id in again.moving or (found and found.drift != drift.drift):
                unsure.add(user_id)
            if found and found.drift == drift.drift:
                standing[user_id] = found
            else:
                del standing[user_id]
    return list(standing.values()), unsure


def repair(drifts: Collection[Drift]) -> set[int]:
    """Add each drift to its stored number, if that is still what it was; return the users whose were."""
    rows = statements.run(
        "notifications",
        "repair",
        {
            "users": [drift.user_id for drift in drifts],
            "drifts": [drift.drift for drift in drifts],
            "unread_counts": [drift.unread_count for drift in drifts],
            "epochs": [drift.epoch for drift in drifts],
        },
    )
    return {row.user_id for row in rows}


def _look_once(user_ids: Collection[int], differing: dict[int, Drift]) -> list[int]:
    """Note who differs; return those whose deltas changed meanwhile, so that the two sides are of two moments."""
    users = list(user_ids)
    before = counters.peek(users)
    rows = statements.run_within("notifications", "look", {"users": users})
    after = counters.peek(users)
    moving = []
    for row in rows:
        if before.of(row.user_id) != after.of(row.user_id):
            moving.append(row.user_id)
        elif drift := row.rows - row.unread_count - before.after(row.epoch, row.user_id):
            differing[row.user_id] = Drift(
                user_id=row.user_id, drift=drift, unread_count=row.unread_count, epoch=row.epoch
            )
    return moving
