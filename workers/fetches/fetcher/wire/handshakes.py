"""Handshakes: their steps, by which TLS computes for a millisecond or two, share the loop with all else.

Many connections may be opened at the same moment, so a turn of the loop has steps for TURN_S at most. A site may send a
hundred certificates, which take twenty milliseconds: a handshake of more than USUAL bytes waits for one of few turns.
On the loop's thread only.
"""

import asyncio
import time
from collections import deque

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
        (self._large if came > USUAL else self._usual).enter(tls, shaken)
        return shaken


class _Turns:
    """Steps that wait for their turn: a turn has steps for `most_s`, one at least; the next comes after `every_s`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, most_s: float, every_s: float) -> None:
        self._loop = loop
        self._most_s, self._every_s = most_s, every_s
        self._waiting: deque[tuple[Tls, asyncio.Future[bool]]] = deque()  # while any waits, a turn is to come
        self._next_at = 0.0

    def enter(self, tls: Tls, shaken: "asyncio.Future[bool]") -> None:
        """Have this handshake go on in its turn; `shaken` gets what comes of it."""
        self._waiting.append((tls, shaken))
        if len(self._waiting) == 1:
            self._loop.call_at(max(self._next_at, self._loop.time()), self._take_turn)

    def _take_turn(self) -> None:
        until = time.perf_counter() + self._most_s
        while self._waiting:
            tls, shaken = self._waiting.popleft()
            if shaken.done():  # it was given up meanwhile, and takes no time of those behind it
                continue
            _shake(tls, shaken)
            if time.perf_counter() >= until:
                break
        self._next_at = self._loop.time() + self._every_s
        if self._waiting:
            self._loop.call_at(self._next_at, self._take_turn)


def _shake(tls: Tls, shaken: "asyncio.Future[bool]") -> None:
    try:
        shaken.set_result(tls.shake())
    except Exception as error:  # noqa: BLE001  whatever it is, who waits is told, and the others go on
        shaken.set_exception(error.with_traceback(None))
        shaken.exception()  # retrieved, or asyncio logs it where nobody waits any more
