"""The pool: connections that have carried a request, or were opened in vain, and wait for the next one of their origin.

On the loop's thread only.
"""

import asyncio
from collections import defaultdict
from functools import partial

from workers.fetches.fetcher.wire.connection import Connection, State

KEPT_S = 15.0  # for which a connection waits for the next request


class Pool:
    """The idle connections of one fetcher, by origin; the one used last is used next."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._idle: defaultdict[str, dict[Connection, float]] = defaultdict(dict)  # each with when it began to wait
        self._sweeping: asyncio.TimerHandle | None = None

    def take(self, origin: str) -> Connection | None:
        """Return a connection that waits for a request to this origin; None where there is none."""
        if origin not in self._idle:
            return None
        idle = self._idle[origin]
        connection, _ = idle.popitem()
        if not idle:
            del self._idle[origin]
        connection.take()
        return connection

    def give_back(self, origin: str, connection: Connection) -> None:
        """Keep the connection for the next request, if it can carry one; else close it."""
        if connection.state not in {State.DONE, State.WAITING}:
            connection.close()
            return
        connection.keep(partial(self._ended, origin, connection))
        self._idle[origin][connection] = self._loop.time()
        if self._sweeping is None:
            self._sweeping = self._loop.call_later(KEPT_S / 3, self._sweep)

    def close(self) -> None:
        """Close all that wait."""
        if self._sweeping:
            self._sweeping.cancel()
        for idle in list(self._idle.values()):
            for connection in list(idle):
                connection.close()

    def _ended(self, origin: str, connection: Connection) -> None:
        idle = self._idle[origin]
        del idle[connection]
        if not idle:
            del self._idle[origin]

    def _sweep(self) -> None:
        """Close those that have waited for too long: they stand first."""
        before = self._loop.time() - KEPT_S
        for idle in list(self._idle.values()):
            for connection in [one for one, since in idle.items() if since < before]:
                connection.close()
        self._sweeping = self._loop.call_later(KEPT_S / 3, self._sweep) if self._idle else None
