"""The pool: connections that carried a request, or were opened in vain, and wait for the next request to their origin.

A site closes a connection that has waited for some seconds. If the requests to a site are as far apart, each would
arrive just after the site has closed the connection, and its slot would be lost. So the pool learns for each origin how
long connections may wait.

On the loop's thread only.
"""

import asyncio
from collections import defaultdict
from functools import partial
from math import inf

from weir.workers.fetches.fetcher.remembered import Remembered
from weir.workers.fetches.fetcher.wire.connection import HttpConnection, WireState

PoolKey = tuple[str, str]  # an origin, and the key of the way to it (networks.py)
KEPT_S = 15.0  # seconds for which a connection waits for the next request
SAFE = 0.5  # if a site gave up a connection after some time, others of its origin may wait for this part of that time
SHORTEST_S = 0.5  # a site that gives up a connection sooner has another reason than the wait
LEARNED_FOR_S = 600.0  # for so long the pool keeps what it learned: the site may change, or had another reason
MOST_ORIGINS = 10_000  # origins that are remembered because their sites gave up connections


class Pool:
    """The idle connections of one fetcher, by origin and the way to it; the one used last is used next."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._idle: defaultdict[PoolKey, dict[HttpConnection, None]] = defaultdict(
            dict
        )  # the connection that came last stands last
        self._sweeping: asyncio.TimerHandle | None = None
        # By origin: until when this holds, on the loop's clock, and for how many seconds its connections may wait.
        self._learned: Remembered[PoolKey, tuple[float, float]] = Remembered(MOST_ORIGINS)

    def take(self, origin: PoolKey, ahead_s: float = 0.0) -> HttpConnection | None:
        """Return an idle connection to this origin for a request that is written `ahead_s` seconds from now.

        Returns None if there is none. Connections that will have waited for too long by then are closed.
        """
        if origin not in self._idle:
            return None
        idle = self._idle[origin]
        oldest = self._loop.time() + ahead_s - self._may_wait_s(origin)
        while idle:
            connection = next(reversed(idle))
            if connection.since <= oldest:
                connection.close()
                continue
            self._ended(origin, connection)
            connection.take()
            return connection
        return None

    def gave_up(self, origin: PoolKey, connection: HttpConnection) -> None:
        """Record that the site has given up this kept connection: no other connection is to wait for as long."""
        now = self._loop.time()
        if (waited_s := now - connection.since) >= SHORTEST_S:
            self._learned.note(origin, (now + LEARNED_FOR_S, SAFE * waited_s))

    def give_back(self, origin: PoolKey, connection: HttpConnection) -> None:
        """Keep the connection for the next request if it can carry one; otherwise close it."""
        if connection.state not in {WireState.DONE, WireState.WAITING}:
            connection.close()
            return
        connection.keep(partial(self._ended, origin, connection))
        self._idle[origin][connection] = None
        if self._sweeping is None:
            self._sweeping = self._loop.call_later(KEPT_S / 3, self._sweep)

    def close(self) -> None:
        """Close all waiting connections."""
        if self._sweeping:
            self._sweeping.cancel()
        for idle in list(self._idle.values()):
            for connection in list(idle):
                connection.close()

    def _may_wait_s(self, origin: PoolKey) -> float:
        until, seconds = self._learned.get(origin, (0.0, inf))
        return seconds if self._loop.time() < until else inf

    def _ended(self, origin: PoolKey, connection: HttpConnection) -> None:
        idle = self._idle[origin]
        del idle[connection]
        if not idle:
            del self._idle[origin]

    def _sweep(self) -> None:
        """Close the connections that have waited for too long."""
        before = self._loop.time() - KEPT_S
        for idle in list(self._idle.values()):
            for connection in [one for one in idle if one.since < before]:
                connection.close()
        self._sweeping = self._loop.call_later(KEPT_S / 3, self._sweep) if self._idle else None
