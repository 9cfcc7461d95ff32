"""Serial queues: in a pool of threads, the ticks of mail occupy one thread at most, and so do those of maintenance.

A task of `weir.maintenance` may take half a minute, and a mail server may keep an e-mail waiting for ten minutes.
Further ticks of both queues arrive meanwhile. If both queues have processes of their own (`Procfile.split`), only the
children of these processes wait. But if a few threads serve several queues, such ticks would soon occupy all threads.
So a tick that finds its serial queue busy leaves its function in the queue, once, and ends. The thread that is busy
runs the function next, within its own task: its log lines, spans and errors belong to that task. One run serves all
earlier ticks of the same function, because each run does all that is due.

Sweep, publishing, watches, webhooks, flush and effects each have a serial queue of their own, and wait for no other
tick. Without a serial queue, if a transaction locked a row for long, their later ticks would wait, too, each in a
thread, with a session.

A process of a pool runs one task at a time, and never finds its serial queue busy.
"""

import threading
from collections.abc import Callable
from functools import wraps
from typing import Final


class SerialQueue:
    """Runs one function after the other, in the thread that finds the queue free. Thread-safe; for one process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_busy = False
        self._waiting: dict[Callable[[], None], None] = {}  # in the order in which they came

    def run(self, work: Callable[[], None]) -> None:
        """Run `work`, and functions that arrive meanwhile; if the queue is busy, leave `work` to the busy thread.

        After this call, `work` begins once, however many calls with the same function come before it begins. Raises the
        error of a function that this call runs; functions that wait then are run by the next call.
        """
        with self._lock:
            self._waiting[work] = None
            if self._is_busy:
                return
            self._is_busy = True
        while following := self._next():
            try:
                following()
            except BaseException:
                self._is_busy = False
                raise

    def _next(self) -> Callable[[], None] | None:
        """Return the next function; if there is none, mark the queue as free, under the same lock: none is missed."""
        with self._lock:
            first = next(iter(self._waiting), None)
            if first is None:
                self._is_busy = False
            else:
                del self._waiting[first]
            return first


MAIL: Final = SerialQueue()
MAINTENANCE: Final = SerialQueue()
EFFECTS: Final = SerialQueue()
SWEEP: Final = SerialQueue()
PUBLISH: Final = SerialQueue()
FLUSH: Final = SerialQueue()
WATCH: Final = SerialQueue()
WEBHOOKS: Final = SerialQueue()


def run_in(queue: SerialQueue) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Make a task without arguments run in this serial queue of its process."""

    def decorate(work: Callable[[], None]) -> Callable[[], None]:
        @wraps(work)
        def run() -> None:
            queue.run(work)

        return run

    return decorate
