"""Wakes a worker after the commit that brought it effects: once for each kind and priority, however many there are."""

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final, Protocol

from django.db import connection, transaction

from weir.postgres.statements import Statement
from weir.workers.ledger.rows import LedgerRow

BELIEVED_FOR: Final = timedelta(seconds=0.1)


class Wake(Protocol):
    """Tells a worker to look for what is due, unless `unless` returns True."""

    def __call__(self, *, unless: Callable[[], bool] | None = None) -> None: ...


class _Told(threading.local):
    """What this thread has told workers: transactions of a thread end one after the other."""

    def __init__(self) -> None:
        self.stored = 0  # effects that this thread has stored
        # By kind and priority: the effect about which it told last, and how many were stored when it did.
        self.about: dict[tuple[str, int], range] = {}


class Waker:
    """Wakes a worker when the caller's transaction has committed an effect.

    No worker is woken if an older effect of this kind and priority is due: the worker that takes that one takes this
    one, too. Of all effects of a kind and priority in a transaction, only the first that was not rolled back asks
    whether there is an older one: what it finds, or tells a worker, is about the younger ones as well. An `on_commit`
    hook that ran before may have stored one of those, and that one has found the first.

    A statement that stores an effect and is alone in its transaction says itself whether an older one is due, as it was
    when the statement began. That is right before its commit, and the worker that takes the older one commits at least
    twice before it looks again. But if another transaction was storing the same effect, the statement has waited: after
    `believed_for`, it does not say.
    """

    def __init__(self, does_older_wait: Statement[Any], wake: Wake) -> None:
        self._does_older_wait, self._wake = does_older_wait, wake
        self._told = _Told()

    def after_commit(self, row: LedgerRow, *, does_older_wait: bool | None) -> None:
        """Wake a worker when the caller's transaction commits. Errors are logged.

        `does_older_wait` is what the statement has said that stored the row; None if it does not say.
        """
        if does_older_wait is not None:
            transaction.on_commit(lambda: self._wake(unless=lambda: does_older_wait), robust=True)
            return
        self._told.stored = number = self._told.stored + 1
        transaction.on_commit(lambda: self._tell(number, row), robust=True)  # others see it by then

    def _tell(self, number: int, row: LedgerRow) -> None:
        queue = (row.kind, row.priority)
        if number in self._told.about.get(queue, ()):
            return
        self._told.about[queue] = range(number, self._told.stored + 1)
        self._wake(unless=lambda: bool(self._does_older_wait(row=row.pk, kind=row.kind, priority=row.priority)))


def believed_for() -> timedelta | None:
    """Return for how long a statement that stores an effect knows whether an older one is due; None: it does not."""
    return None if connection.in_atomic_block else BELIEVED_FOR
