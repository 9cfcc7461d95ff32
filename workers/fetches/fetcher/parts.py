"""The parts of a fetcher: threads that the process does not outlive.

A fetcher works only as a whole. If a part ends with an error, the process ends immediately. If a part takes no turn for
longer than its patience, the process ends within a second after that. The log names the part and the reason. The
supervisor starts another process. The fetches of the ended process go back to the queue when their leases run out
(maintenance/sweep.py).
"""

import threading
import time
from collections.abc import Callable
from typing import NoReturn

from weir.conf import settings
from weir.postgres import statements
from weir.workers.processes import ending

TURN_S = 1.0  # a part that has nothing to do takes a turn as often as this
LOOP_PATIENCE_S = 8.0  # the patience for the event loop, in which nothing blocks

_current = threading.local()


def database_patience_s() -> float:
    """Return the patience, in seconds, for a part that talks to PostgreSQL; infinite if statements have no time-out."""
    return settings.WEIR_STATEMENT_TIMEOUT + ending.SPARE_S if settings.WEIR_STATEMENT_TIMEOUT else float("inf")


def take_turn() -> None:
    """Record that the part that runs in this thread makes progress. Does nothing in other threads."""
    part: FetcherPart | None = getattr(_current, "part", None)
    if part is not None:
        part.turned_at = time.monotonic()


def end_process(name: str, reason: str, error: BaseException | None = None) -> NoReturn:
    """End this process immediately, because a part of its fetcher no longer works. May be called in any thread."""
    ending.end_process("fetcher_ends", error, part=name, reason=reason)


class FetcherPart:
    """A thread of the fetcher. `work` calls `take_turn` at least every `patience_s` seconds."""

    def __init__(self, name: str, work: Callable[[], None], *, patience_s: float) -> None:
        self.name = name
        self.turned_at = time.monotonic()
        self._work = work
        self._patience_s = patience_s
        self._thread = threading.Thread(target=self._run, name=f"fetch-{name}", daemon=True)
        self._thread.start()

    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def hangs(self) -> bool:
        """Return whether its last turn is longer ago than its patience."""
        return self.is_alive() and time.monotonic() - self.turned_at > self._patience_s

    def join(self, timeout: float) -> bool:
        """Wait for the end of the thread; returns False when that takes longer than `timeout` seconds."""
        self._thread.join(timeout)
        return not self.is_alive()

    def _run(self) -> None:
        _current.part = self
        statements.before_each(take_turn)  # each statement may take its whole time-out
        try:
            self._work()
        except BaseException as error:  # noqa: BLE001  after any error, no thread continues this part's work
            end_process(self.name, "it failed", error)


class Watchdog:
    """A thread that ends the process when a part hangs. It calls `each_look` once a second."""

    def __init__(self, *parts: FetcherPart, each_look: Callable[[], None] = lambda: None) -> None:
        self._parts = parts
        self._each_look = each_look
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._look, name="fetch-watchdog", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop looking."""
        self._closed.set()
        self._thread.join()

    def _look(self) -> None:
        try:
            self._look_until_closed()
        except Exception as error:  # noqa: BLE001  after any error, no thread watches the parts any more
            end_process("watchdog", "it failed", error)

    def _look_until_closed(self) -> None:
        for stood_still_s in ending.looks(self._closed):
            self._each_look()
            now = time.monotonic()
            for part in self._parts:
                part.turned_at = min(now, part.turned_at + stood_still_s)
                if part.hangs():
                    end_process(part.name, f"it has made no turn for {now - part.turned_at:.1f} s")
