"""Handshakes: their steps, by which TLS computes for a millisecond or two, share the loop with all else.

Many connections may be opened at the same moment, so a turn of the loop has steps for TURN_S at most. A site may send a
hundred certificates, which take twenty milliseconds: a handshake of more than USUAL bytes waits for one of few turns.
On the loop's thread only.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from functools import partial

from workers.fetches.fetcher.wire.tls import Tls

TURN_S = 0.005
USUAL = 2**14  # bytes from a site
LARGE_EVERY_S = 0.1


class Handshakes:
    """One a loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._usual = _Turns(loop, TURN_S, 0.0)
        self._large = _Turns(loop, 0.0, LARGE_EVERY_S)

    async def shake(self, tls: Tls, came: int) -> bool:
        """Go on with a handshake of which so many bytes came, in its turn; tell whether it has ended.

        Raises what Tls.shake raises.
        """
        return await self._entered(tls, came)  # which no name holds: its error would lead back to it

    def _entered(self, tls: Tls, came: int) -> "asyncio.Future[bool]":
        shaken: asyncio.Future[bool] = self._loop.create_future()
        (self._large if came > USUAL else self._usual).enter(partial(_shake, tls, shaken))
        return shaken


class _Turns:
    """Work that is done for so long at once, or once if that is longer, and again after so many seconds."""

    def __init__(self, loop: asyncio.AbstractEventLoop, most_s: float, every_s: float) -> None:
        self._loop = loop
        self._most_s, self._every_s = most_s, every_s
        self._waiting: deque[Callable[[], None]] = deque()
        self._next_at = 0.0

    def enter(self, work: Callable[[], None]) -> None:
        """Have this done in its turn."""
        self._waiting.append(work)
        if len(self._waiting) == 1:
            self._loop.call_at(max(self._next_at, self._loop.time()), self._take_turn)

    def _take_turn(self) -> None:
        until = time.perf_counter() + self._most_s
        while True:
            self._waiting.popleft()()
            if not self._waiting or time.perf_counter() >= until:
                break
        self._next_at = self._loop.time() + self._every_s
        if self._waiting:
            self._loop.call_at(self._next_at, self._take_turn)


def _shake(tls: Tls, shaken: "asyncio.Future[bool]") -> None:
    if shaken.done():  # it was given up meanwhile
        return
    try:
        shaken.set_result(tls.shake())
    except Exception as error:  # noqa: BLE001  whatever it is, who waits is told, and the others go on
        shaken.set_exception(error.with_traceback(None))
        shaken.exception()  # retrieved, or asyncio logs it where nobody waits any more
