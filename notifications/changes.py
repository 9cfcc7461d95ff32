"""What a transaction changes of unread numbers: collected while it runs, sent to Redis after its commit.

A change says by user how many more rows are unread than before; only rows that were really changed count. `record`
takes a change. A savepoint that is rolled back drops its changes. What remains is added up, and sent in one call.

The rows are the truth, so a failure to send raises nothing: users whose change is known to be missed are noted as
doubts. Where the process dies before it sends, reconciliation finds the users by their changed rows.
"""

import time
from collections import Counter
from collections.abc import Mapping
from functools import partial

from django.db import Error, connections, transaction

from notifications import counters, django_private, outages
from postgres import statements

# A reconciler takes a delta for lost that is missing for three seconds, and repairs the number. A delta that arrives
# later than this may have been repaired already, so its users become doubts.
LATE_S = 1.5


def record(change: Mapping[int, int], *, using: str, since: float | None = None) -> None:
    """Change users' unread numbers by so much when the current transaction commits; at once where there is none.

    Outside a transaction the rows have committed already: `since` is when the statement was sent, of time.monotonic().
    """
    change = _by_number(change)
    if not any(change.values()):
        return
    if not connections[using].in_atomic_block:
        transaction.on_commit(partial(_send, change, since or time.monotonic()), using=using)  # now
        return
    total = django_private.take_hook(_Total, using=using, leaving=_moved) or _Total()
    total.latest = time.monotonic()
    transaction.on_commit(partial(total.add, change), using=using)
    # Behind the changes that it sends. It outlives rolled-back savepoints; their changes do not.
    django_private.add_hook_of_no_savepoint(total, using=using)


def _by_number(change: Mapping[int, int]) -> Counter[int]:
    numbers = Counter[int]()
    for user_id, delta in change.items():
        numbers[int(user_id)] += delta  # an instance may hold "1"
    return numbers


class _Total:
    """The sum of the changes that survive to the commit: Django calls `add` for each of them, and then the total."""

    def __init__(self) -> None:
        self.latest = 0.0  # when the last change was recorded, of time.monotonic()
        self._change: Counter[int] = Counter()

    def add(self, change: Mapping[int, int]) -> None:
        self._change.update(change)

    def __call__(self) -> None:
        change, self._change = self._change, Counter()
        _send(change, self.latest)


def _moved() -> None:
    """Stand in the list of hooks where a total stood that has moved to the end."""


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
        _note_doubts(doubtful)


def _note_doubts(users: list[int]) -> None:
    try:
        statements.run_within("notifications", "doubts/note", {"users": users})
    except Error as error:
        outages.warn("unread_doubt_not_noted", error)
