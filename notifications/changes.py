"""Collects by how much a transaction changes unread numbers, and sends this to Redis after the commit.

A change says, for each user, how many more rows are unread than before. Only rows that were really changed count.
`record` takes a change. A savepoint that is rolled back drops its changes. The remaining changes are added up, and sent
in one call.

The rows are the truth, so a failure to send raises nothing. Users whose change certainly was not sent, or was sent too
late, are noted as doubts. If the process dies before it sends, reconciliation finds the users by their changed rows.
"""

import math
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.db import Error, connections, transaction

from weir.notifications import counters, django_private, user_keys
from weir.notifications.user_keys import UserKey
from weir.postgres.statements import Statement
from weir.redis_link import outages

# For who counts a user's rows, and changes them as counted.
LOCK_READ_MARKS = Statement("lock_read_marks", commits=False)
NOTE_DOUBTS_WITHIN = Statement("note_doubts", commits=False)

# Seconds after the COMMIT. A reconciler considers a delta lost if it is missing for three seconds, and repairs the
# number. A delta that arrives later than LATE_S may have been repaired already, so its users become doubts.
LATE_S = 1.5


def record(change: Mapping[Any, int], *, using: str, since: float | None = None) -> None:
    """Change users' unread numbers by these deltas when the transaction commits, or immediately outside a transaction.

    Outside a transaction the rows have committed already: `since` is the time.monotonic() when the statement was sent.
    """
    change = _by_key(change)
    if not any(change.values()):
        return
    if not connections[using].in_atomic_block:
        transaction.on_commit(partial(_send, change, since or time.monotonic()), using=using)  # runs immediately
        return
    django_private.tell_before_commit(using=using)
    total = django_private.take_hook(_Total, using=using, leaving=_moved) or _Total()
    transaction.on_commit(_Change(change, total), using=using)
    # The total runs after the changes that it sends. A rolled-back savepoint drops its changes, but never the total.
    django_private.add_hook_of_no_savepoint(total, using=using)


def pending(*, using: str) -> Counter[UserKey]:
    """Return by how much the current transaction has changed users' numbers so far; nothing outside a transaction."""
    numbers = Counter[UserKey]()
    for hook in django_private.hooks_of(_Change, using=using):
        if not hook.is_added:  # tests run hooks before the transaction ends
            numbers.update(hook.change)
    return numbers


def _by_key(change: Mapping[Any, int]) -> Counter[UserKey]:
    numbers = Counter[UserKey]()
    for user_id, delta in change.items():
        numbers[user_keys.clean(user_id)] += delta  # a Notification may have the user id "1" instead of 1
    return numbers


class _Total(django_private.CommitHook):
    """The sum of the changes that survive until the commit. Django first runs each change, which adds itself to it."""

    def __init__(self) -> None:
        self._since = math.inf  # time.monotonic() when the COMMIT began; a test's transaction may never commit
        self._change: Counter[UserKey] = Counter()

    def commits(self) -> None:
        self._since = time.monotonic()

    def add(self, change: Mapping[UserKey, int]) -> None:
        self._change.update(change)

    def __call__(self) -> None:
        change, self._change = self._change, Counter()
        _send(change, self._since)


@dataclass(slots=True)
class _Change:
    """One change, which survives until the commit or is dropped with its savepoint."""

    change: Mapping[UserKey, int]
    total: _Total
    is_added: bool = False

    def __call__(self) -> None:
        self.is_added = True
        self.total.add(self.change)


def _moved() -> None:
    """Stand in the list of hooks in the place of a total that has moved to the end."""


def _send(change: Mapping[UserKey, int], since: float) -> None:
    deltas = [(user_id, delta) for user_id, delta in change.items() if delta]
    doubtful: list[UserKey] = []
    for start in range(0, len(deltas), counters.AT_ONCE):
        part = dict(deltas[start : start + counters.AT_ONCE])
        try:
            counters.add(part)
        except counters.RedisUnreachable as error:
            outages.warn("unread_delta_missed", error)
            doubtful += part
        else:
            if time.monotonic() - since > LATE_S:
                doubtful += part
    if doubtful:
        _note_doubts(doubtful)


def _note_doubts(users: list[UserKey]) -> None:
    try:
        NOTE_DOUBTS_WITHIN(users=user_keys.array(users))
    except Error as error:
        outages.warn("unread_doubt_not_noted", error)
