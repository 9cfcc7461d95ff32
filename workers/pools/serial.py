"""Serial queues: in a pool of threads, mail and maintenance take a thread each, and so does each tick.

What is in `weir.maintenance` may take half a minute, and a mail server may keep an e-mail waiting for ten. Ticks of
both come meanwhile. In processes of their own they have children of their own (`Procfile.split`); where a few threads
serve several queues, they would soon hold all of them. So a tick that finds its serial queue busy leaves its function
there, once, and ends. The thread that is busy runs it next, within its own task: logs, spans and an error are of that
one. Ticks of the same function that came before that are done by the same run, as each does all that is due.

A tick that keeps Weir going has a queue of its own, and waits for no other. Where it waits for a lock, as somebody
holds a row for long, those of its name that come meanwhile would wait beside it, each in a thread, with a session.

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
        """Run it, and what comes meanwhile; or return at once, and leave it to the thread that runs another.

        It begins once after this call, however many come before that. Raises what a function raises that it runs: what
        waits then is left to the next who comes, in another tick.
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
        """Return what comes next; or be free, at once, so that nothing is left to a thread that has gone."""
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
    """Have a task, which takes no arguments, run in this serial queue of its process."""

    def decorate(work: Callable[[], None]) -> Callable[[], None]:
        @wraps(work)
        def run() -> None:
            queue.run(work)

        return run

    return decorate
