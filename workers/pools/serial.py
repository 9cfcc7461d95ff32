"""Serial queues: in a pool of threads, mail and maintenance take a thread each, and so does each tick.

A task of `weir.maintenance` may take half a minute, and a mail server may keep an e-mail waiting for ten. Ticks of
both come meanwhile. In processes of their own they have children of their own (`Procfile.split`); if a few threads
serve several queues, they would soon hold all of them. So a tick that finds its serial queue busy leaves its function
there, once, and ends. The thread that is busy runs it next, within its own task: logs, spans and an error belong to
that task. One run serves all ticks of the same function that came before it, because each run does all that is due.

A tick that keeps Weir going has a queue of its own, and waits for no other. If it waits for a lock, because a
transaction holds a row for long, later ticks of its name would wait beside it, each in a thread, with a session.

A process of a pool runs one task at a time, and never finds its serial queue busy.
"""

import threading
from collections.abc import Callable
from functools import wraps
from typing import Final


class SerialQueue:
    """Runs one function after the other, in the thread that finds it free. Thread-safe; of one process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_busy = False
        self._waiting: dict[Callable[[], None], None] = {}  # in the order in which they came

    def run(self, work: Callable[[], None]) -> None:
        """Run it, and what comes meanwhile; or return immediately, and leave it to the thread that runs another.

        It begins once after this call, however many calls come before it begins. Raises the error of a function that
        it runs: functions that wait then are left to the next call, by another tick.
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
        """Return the next function; or be free, in the same step, so that none is left to a thread that has gone."""
        with self._lock:
            first = next(iter(self._waiting), None)
            if first is None:
                self._is_busy = False
            else:
                del self._waiting[first]
            return first


MAIL: Final = SerialQueue()
MAINTENANCE: Final = SerialQueue()
SWEEP: Final = SerialQueue()
PUBLISH: Final = SerialQueue()
FLUSH: Final = SerialQueue()


def run_in(queue: SerialQueue) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Make a task, which takes no arguments, run in this serial queue of its process."""

    def decorate(work: Callable[[], None]) -> Callable[[], None]:
        @wraps(work)
        def run() -> None:
            queue.run(work)

        return run

    return decorate
