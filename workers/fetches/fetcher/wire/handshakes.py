"""Handshakes of TLS: each step computes for a millisecond or two, and shares the loop with all other work.

Many connections may be opened at the same moment, so one turn of the loop makes steps for TURN_S at most. A site may
send a hundred certificates, which take twenty milliseconds. So a handshake of more than USUAL bytes waits for its turn
among other large ones, of which one comes every LARGE_EVERY_S. On the loop's thread only.
"""

import asyncio
from functools import partial

from weir.workers.fetches.fetcher.wire.tls import Tls
from weir.workers.fetches.fetcher.wire.turns import Turns

TURN_S = 0.005
USUAL = 2**14  # bytes from a site
LARGE_EVERY_S = 0.1


class Handshakes:
    """The handshakes of one loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._usual = Turns(loop, every_s=0.0, most_s=TURN_S)
        self._large = Turns(loop, every_s=LARGE_EVERY_S)

    async def shake(self, tls: Tls, came: int) -> bool:
        """Continue, in its turn, a handshake of which `came` bytes have come; return whether it has ended.

        Raises the errors of Tls.shake.
        """
        return await self._entered(tls, came)  # no variable holds the future: its error's traceback would refer to it

    def _entered(self, tls: Tls, came: int) -> "asyncio.Future[bool]":
        shaken: asyncio.Future[bool] = self._loop.create_future()
        (self._large if came > USUAL else self._usual).enter(partial(_shake, tls, shaken))
        return shaken


def _shake(tls: Tls, shaken: "asyncio.Future[bool]") -> bool:
    """Continue the handshake; returns False if the handshake was given up meanwhile."""
    if shaken.done():
        return False
    try:
        shaken.set_result(tls.shake())
    except Exception as error:  # noqa: BLE001  any error goes to the caller that waits
        shaken.set_exception(error.with_traceback(None))
        shaken.exception()  # marks it as retrieved: otherwise asyncio logs it if no caller waits any more
    return True
