"""What a transaction changes of unread numbers: collected while it runs, sent to Redis when it has committed.

A change is a number of rows that were really changed, by user. `record` takes it; a savepoint that is rolled back takes
its changes along; what remains is added up and sent by one call. The rows are the truth, so nothing is raised where
that fails: whoever is known to be missed is noted for heal, and who dies before that is found by it.
"""

import time
from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Any

from django.db import Error, connections, transaction

from notifications import counters, outages
from postgres import statements

# Heal takes a delta that is missing for three seconds for lost, and repairs it. One that arrives after this time may
# have been repaired, so heal must look again.
LATE_S = 1.5


def record(change: Mapping[int, int], *, using: str, since: float | None = None) -> None:
    """Change users' unread numbers by so much when the current transaction commits; at once where there is none.

    Outside a transaction the rows have committed already: `since` is when the statement was sent, of time.monotonic().
    """
    change = _by_number(change)
    if not any(change.values()):
        return
    connection = connections[using]
    if not connection.in_atomic_block:
        transaction.on_commit(partial(_send, change, since or time.monotonic()), using=using)  # now
        return
    hooks = connection.run_on_commit
    total = _taken_from(hooks) or _Total()
    total.latest = time.monotonic()
    transaction.on_commit(partial(total.add, change), using=using)
    # Behind the changes that it sends, and of no savepoint, so that it outlives those that are rolled back.
    hooks.append((set(), total, False))  # type: ignore[arg-type]  # as on_commit does it


def _by_number(change: Mapping[int, int]) -> Counter[int]:
    numbers = Counter[int]()
    for user_id, delta in change.items():
        numbers[int(user_id)] += delta  # an instance may hold "1"
    return numbers


class _Total:
    """What has survived to the commit: Django calls `add` for each such change, and then it."""

    def __init__(self) -> None:
        self.latest = 0.0
        self._change: Counter[int] = Counter()

    def add(self, change: Mapping[int, int]) -> None:
        """Take one that has survived."""
        self._change.update(change)

    def __call__(self) -> None:
        change, self._change = self._change, Counter()
        _send(change, self.latest)


def _taken_from(hooks: list[Any]) -> _Total | None:
    for place in range(len(hooks) - 1, -1, -1):  # it is among the last
        savepoints, total, robust = hooks[place]
        if isinstance(total, _Total):
            hooks[place] = (savepoints, _moved, robust)  # the others keep their places, which Django's tests count
            return total
    return None


def _moved() -> None:
    """Stand where a sum stood that is sent later."""


def _send(change: Mapping[int, int], since: float) -> None:
    deltas = [(user_id, delta) for user_id, delta in change.items() if delta]
    doubtful: list[int] = []
    for start in range(0, len(deltas), counters.AT_ONCE):
        part = dict(deltas[start : start + counters.AT_ONCE])
        try:
            counters.add(part)
        except counters.Unreachable as error:
            outages.warn("unread_delta_missed", error)
            doubtful += part
        else:
            if time.monotonic() - since > LATE_S:
                doubtful += part
    if doubtful:
        _doubt(doubtful)


def _doubt(users: list[int]) -> None:
    try:
        statements.run_within("notifications", "note_doubts", {"users": users})
    except Error as error:
        outages.warn("unread_doubt_not_noted", error)
