"""Snapshots: if many viewers look at the same data, one of them reads it, and all get the result.

A snapshot is fresh for at least two seconds, and for twenty times as long as the read took. So a web process spends at
most a twentieth of one connection's time on it, however many viewers there are, and however large the tables are. But
no snapshot is fresh for longer than a minute: a read that took long because a server stood still is soon repeated.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

import psycopg
from django.db import Error

from weir.logs.loggers import get_logger
from weir.postgres import bounded

T = TypeVar("T")
U = TypeVar("U")
log = get_logger(__name__)

LEAST_LIFE_S: Final = 2.0
COSTS_A_LIFE: Final = 20.0  # how many times as long as its read took a snapshot is fresh
LONGEST_LIFE_S: Final = 60.0
STATEMENT_S: Final = 1.0  # after this time PostgreSQL ends a statement of a page
FIRST_WITHIN_S: Final = 5.0  # how long a viewer waits while another viewer takes the first snapshot
MOST_KEPT: Final = 200  # how many snapshots of one kind are kept, such as those of single sites


@dataclass(frozen=True, kw_only=True, slots=True)
class Look(Generic[T]):
    """The result of a look: `value`, or None with the reason in `failure`."""

    value: T | None
    failure: str = ""
    taken_at: float = field(default_factory=time.monotonic)
    life_s: float = LEAST_LIFE_S

    @property
    def age_s(self) -> float:
        return time.monotonic() - self.taken_at

    @property
    def left_s(self) -> float:
        """For how many seconds more the result is fresh."""
        return max(0.0, self.life_s - self.age_s)

    def then(self, make: Callable[[T], U]) -> "Look[U]":
        """Return this look with what `make` returns for the value, if there is a value."""
        value = None if self.value is None else make(self.value)
        return Look(value=value, failure=self.failure, taken_at=self.taken_at, life_s=self.life_s)

    @property
    def is_fresh(self) -> bool:
        return self.age_s < self.life_s


class OverviewSnapshot(Generic[T]):
    """The last look, for all threads of this process. One thread at a time looks; the others get the last look."""

    def __init__(self, *, least_life_s: float = LEAST_LIFE_S) -> None:
        self._least_life_s = least_life_s
        self._looking = threading.Lock()
        self._last: Look[T] | None = None

    def get(self, ask: Callable[[], T]) -> Look[T]:
        """Return the last look while it is fresh, or while another thread looks; otherwise look now: call `ask`.

        Never raises a database error: `failure` says what failed or took too long. Raises any other error of `ask`, and
        does not keep it as a look.
        """
        last = self._last
        if last is not None and last.is_fresh:
            return last
        if not self._looking.acquire(timeout=0 if last is not None else FIRST_WITHIN_S):
            return last or Look(value=None, failure="It is being looked up for another viewer, which takes long.")
        try:
            if self._last is last:  # no other thread has looked since
                self._last = look(ask, self._least_life_s)
            return self._last or look(ask, self._least_life_s)
        finally:
            self._looking.release()


class Snapshots(Generic[T]):
    """A snapshot for each key, such as a site's name. Keeps the MOST_KEPT keys that were asked for last."""

    def __init__(self, *, least_life_s: float = LEAST_LIFE_S) -> None:
        self._least_life_s = least_life_s
        self._lock = threading.Lock()
        self._by_key: OrderedDict[Hashable, OverviewSnapshot[T]] = OrderedDict()

    def get(self, key: Hashable, ask: Callable[[], T]) -> Look[T]:
        """Return the snapshot of the key, as `OverviewSnapshot.get` does.

        All callers with the same key must ask for the same data.
        """
        with self._lock:
            snapshot = self._by_key.setdefault(key, OverviewSnapshot(least_life_s=self._least_life_s))
            self._by_key.move_to_end(key)
            if len(self._by_key) > MOST_KEPT:
                self._by_key.popitem(last=False)
        return snapshot.get(ask)


def look(ask: Callable[[], T], least_life_s: float = LEAST_LIFE_S) -> Look[T]:
    """Call `ask` now, with a limit of STATEMENT_S for each of its statements."""
    began = time.monotonic()
    value, failure = None, ""
    try:
        with bounded.reading(STATEMENT_S):
            value = ask()
    except Error as error:
        failure = _sentence(error)
        log.warning("page_not_read", reason=failure)
    took_s = time.monotonic() - began
    return Look(value=value, failure=failure, life_s=max(least_life_s, min(COSTS_A_LIFE * took_s, LONGEST_LIFE_S)))


def _sentence(error: Error) -> str:
    """Return a sentence about the error, without the driver's message, which may name hosts and users."""
    if getattr(error.__cause__, "sqlstate", None) == psycopg.errors.QueryCanceled.sqlstate:  # its text is translated
        return f"PostgreSQL needs longer than {STATEMENT_S:g} s for this: look again when it has less to do."
    return "PostgreSQL does not answer."
