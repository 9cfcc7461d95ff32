"""Lanes: in a worker whose pool is of threads, mail and maintenance take a thread each, and leave the others to ticks.

What is in `weir.maintenance` may take half a minute, and a mail server may keep an e-mail waiting for ten. Ticks of
both come meanwhile. In processes of their own they have children of their own (`Procfile.split`); where a few threads
serve several queues, they would soon hold all of them. So a tick that finds its lane taken leaves its name there, once,
and ends. Who has the lane runs it next. A tick of the same name that came before that is done by the same run, as each
does all that is due.

A process of a pool runs one task at a time, and never finds its lane taken.
"""

import threading
from collections.abc import Callable
from functools import wraps
from typing import Final


class Lane:
    """Runs one function after the other, in the thread that finds it free."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_taken = False
        self._waiting: dict[Callable[[], None], None] = {}  # in the order in which they came

    def run(self, work: Callable[[], None]) -> None:
        """Run it, and what comes meanwhile; or leave it to the thread that runs another. Raises what it raises.

        Where it raises, what waits is left to the next who comes.
        """
        with self._lock:
            self._waiting[work] = None
            if self._is_taken:
                return
            self._is_taken = True
        while following := self._next():
            try:
                following()
            except BaseException:
                self._is_taken = False
                raise

    def _next(self) -> Callable[[], None] | None:
        """Return what comes next; or leave the lane, at once, so that nothing is left to a thread that has gone."""
        with self._lock:
            first = next(iter(self._waiting), None)
            if first is None:
                self._is_taken = False
            else:
                del self._waiting[first]
            return first


MAIL: Final = Lane()
MAINTENANCE: Final = Lane()


def in_lane(lane: Lane) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Have a task, which takes no arguments, run in the lane."""

    def decorate(work: Callable[[], None]) -> Callable[[], None]:
        @wraps(work)
        def run() -> None:
            lane.run(work)

        return run

    return decorate
