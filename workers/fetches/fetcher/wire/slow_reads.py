"""Slow reads: answers that cost more to read, or to store, than their length explains share a small part of all time.

One of them is read each EVERY_S, in turn, so that all of them together hold up no other answer, however many there are.
What is not read yet waits in the kernel, which slows its site down: so the writer and PostgreSQL get no more of it. The
others are read as they come. On the loop's thread only.
"""

import asyncio
from collections import deque
from collections.abc import Callable

EVERY_S = 0.01


class SlowReads:
    """One a loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_running = False

    def enter(self, read: Callable[[], None]) -> None:
        """Have `read` called in its turn, once."""
        self._waiting.append(read)
        if not self._is_running:
            self._is_running = True
            self._loop.call_later(EVERY_S, self._next)

    def _next(self) -> None:
        read = self._waiting.popleft()
        self._is_running = bool(self._waiting)
        if self._is_running:  # first of all: whatever comes of this read, the others have their turns
            self._loop.call_later(EVERY_S, self._next)
        read()
