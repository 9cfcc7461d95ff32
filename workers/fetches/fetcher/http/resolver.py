"""The resolver: the system's, with a deadline, and with the guard of `workers.fetches.addresses` behind it."""

import asyncio
import math
import socket
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from workers.fetches.addresses import AddressRefused, Allowed
from workers.fetches.fetcher.http.faults import LookupTimedOut

Answers = Sequence[tuple[socket.AddressFamily, socket.SocketKind, int, str, tuple[str | int | bytes, ...]]]

AddrInfo = tuple[Any, Any, int, str, tuple[Any, ...]]

# Lookups at once, each in a thread; threads are made when they are needed. A lookup of the system's resolver cannot be
# stopped: where name servers hang, it keeps its thread for some 10 to 30 s.
MOST_LOOKUPS = 256


class NotLookedUp(Exception):
    """Lookups of other hosts had all threads, so this host was not looked up; that is no fault of the host."""


class Lookup:
    """One lookup by the system's resolver. It goes on in its thread also when no fetch waits for it any more."""

    def __init__(self, threads: ThreadPoolExecutor, host: str, family: socket.AddressFamily) -> None:
        self.began_at = math.inf  # it has no thread yet
        self.answers = asyncio.wrap_future(threads.submit(self._ask, host, family))

    def _ask(self, host: str, family: socket.AddressFamily) -> Answers:
        self.began_at = time.monotonic()
        return socket.getaddrinfo(host, None, family=family, type=socket.SOCK_STREAM)


class GuardedResolver:
    """The system's resolver, with a deadline, that returns only addresses which pass the guard.

    A host has one lookup at a time, which all fetches of the host wait for. So a host whose name servers hang takes one
    thread from others, however often it is fetched from.

    Calls `answered` whenever the name servers have answered.
    """

    def __init__(self, *, allowed: Allowed, timeout_s: float, answered: Callable[[], None] = lambda: None) -> None:
        self._allowed = allowed
        self._timeout_s = timeout_s
        self._answered = answered
        self._threads = ThreadPoolExecutor(max_workers=MOST_LOOKUPS, thread_name_prefix="dns")
        self._lookups: dict[tuple[str, socket.AddressFamily], Lookup] = {}

    async def resolve(self, host: str, port: int) -> list[AddrInfo]:
        """Return the permitted addresses.

        Raises AddressRefused when there are only others, OSError when none, LookupTimedOut at the deadline, and
        NotLookedUp when no thread was free for the lookup until half of the time was over.
        """
        answers = await self._look_up(host, socket.AF_UNSPEC)
        self._answered()
        permitted: list[AddrInfo] = []
        refused: AddressRefused | None = None
        for family, kind, protocol, _, address in answers:
            try:
                self._allowed.check(str(address[0]), port)
            except AddressRefused as error:
                refused = error
                continue
            permitted.append((family, kind, protocol, "", (address[0], port, *address[2:])))
        if not permitted and refused is not None:
            raise AddressRefused(f"{host} resolves to {refused}")
        return permitted

    async def _look_up(self, host: str, family: socket.AddressFamily) -> Answers:
        key = (host, family)
        lookup = self._lookups.get(key)
        if lookup is None:
            lookup = self._lookups[key] = Lookup(self._threads, host, family)
            lookup.answers.add_done_callback(partial(self._ended, key))
        await asyncio.wait([lookup.answers], timeout=self._timeout_s)  # at the deadline the lookup goes on
        if lookup.answers.done():
            return lookup.answers.result()
        if time.monotonic() - lookup.began_at < self._timeout_s / 2:
            raise NotLookedUp(f"{MOST_LOOKUPS} lookups of other hosts go on")
        raise LookupTimedOut(f"no answer from DNS for {host} within {self._timeout_s:g} s")

    def _ended(self, key: tuple[str, socket.AddressFamily], answers: asyncio.Future[Answers]) -> None:
        del self._lookups[key]
        if not answers.cancelled():
            answers.exception()  # retrieved, or asyncio logs it where no fetch waits for the lookup any more

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
