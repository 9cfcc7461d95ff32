"""Turns: the work of many connections shares a small part of the loop's time, so that it does not delay other work.

On the loop's thread only.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable

Work = Callable[[], bool]


class Turns:
    """Waiting work is done in the order in which it came, in turns of `most_s` seconds, each of at least one piece.

    A turn begins `every_s` seconds after the end of the previous one, or after the first piece of work has come. The
    loop logs an error in a piece of work; the other pieces go on.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, *, every_s: float, most_s: float = 0.0) -> None:
        self._loop = loop
        self._every_s, self._most_s = every_s, most_s
        self._waiting: deque[Work] = deque()
        self._is_coming = False  # the next turn is scheduled, or a turn takes place

    def enter(self, work: Work) -> None:
        """Call `work` once, in its turn. `work` returns False if it had nothing to do, which takes no time."""
        self._waiting.append(work)
        if not self._is_coming:
            self._is_coming = True
            self._loop.call_later(self._every_s, self._take)

    def _take(self) -> None:
        until = time.perf_counter() + self._most_s
        try:
            while self._waiting:
                if self._waiting.popleft()() and time.perf_counter() >= until:
                    break
        finally:
            self._is_coming = bool(self._waiting)
            if self._is_coming:
                self._loop.call_later(self._every_s, self._take)
