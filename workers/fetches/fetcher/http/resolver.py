"""The resolver: the system's, with a deadline. The guard of `weir.workers.fetches.addresses` checks its answers.

lookup_shares.py decides which look-up may have a thread. On the loop's thread only, except the look-ups themselves.
"""

import asyncio
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import zip_longest
from typing import cast

from weir.workers.fetches.addresses import AddressRefused, Allowed
from weir.workers.fetches.fetcher.http import descriptors, lookup_shares
from weir.workers.fetches.fetcher.http.faults import OWN_LOOKUP_ERRORS, UNCLEAR_LOOKUP_ERRORS, LookupTimedOut
from weir.workers.fetches.fetcher.http.lookup_shares import (
    LookupEnding,
    LookupShare,
    NotLookedUp,
    Shares,
    Zone,
    ZoneSilent,
)
from weir.workers.fetches.fetcher.remembered import Remembered

SocketName = tuple[str, int] | tuple[str, int, int, int]
AddrInfo = tuple[socket.AddressFamily, socket.SocketKind, int, str, SocketName]
Answers = list[AddrInfo]

MOST_ADDRESSES = 16  # addresses of one host to which connections are tried
MOST_ANSWERS = 64  # addresses of one host that are looked at
MOST_WAITING = 1_000  # fetches that wait for look-ups; further ones do not wait for a slow look-up, or for a thread
SLOW = 0.2  # the part of the time-out after which a look-up is slow
CONTROLS_EVERY_S = 1.0
KEPT_S = 10.0  # seconds for which answers count: fetches of one host that begin together need one look-up
MOST_KEPT = 10_000


class Lookup(LookupShare):
    """One look-up by the system's resolver. It goes on in its thread even if no fetch waits for it any more.

    After its end, a look-up must not be part of a reference cycle: collecting garbage would stop the fetcher's loop.
    """

    def __init__(self, host: str, resolver: "GuardedResolver", zone: Zone) -> None:
        super().__init__(host, zone)
        self._resolver = resolver
        self.began_at: float | None = None  # on the loop's clock; None: the look-up has no thread yet
        self.is_slow = False
        self.waiting = 0  # fetches
        self.timer: asyncio.TimerHandle | None = None
        self.answers: asyncio.Future[Answers] = asyncio.get_running_loop().create_future()

    def start(self) -> None:
        """Begin in a thread."""
        self._resolver.start(self)

    def give_up(self) -> None:
        """End without having begun, because the zone does not answer."""
        self._resolver.give_up(self)

    def end(self, answers: Answers | BaseException) -> None:
        """Give the answers, or the error, to all fetches that wait for this look-up."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        if self.answers.done():
            return
        if isinstance(answers, BaseException):
            self.answers.set_exception(answers)
            self.answers.exception()  # marks it as retrieved: otherwise asyncio logs it if no fetch waits any more
        else:
            self.answers.set_result(answers)


class GuardedResolver:
    """The system's resolver, with a deadline, that returns only addresses which pass the guard.

    A host has one look-up at a time, which all fetches of the host wait for.

    The resolver calls `answered` whenever name servers have answered in time, with addresses. After a look-up without
    an answer, it looks up some controls, once a second: names of other zones that were found before. So `answered`
    shows whether the site's name servers or ours are to blame, even if fetches look nothing else up.
    """

    def __init__(self, *, allowed: Allowed, timeout_s: float, answered: Callable[[], None] = lambda: None) -> None:
        self._allowed = allowed
        self._timeout_s = timeout_s
        self._answered = answered
        most = descriptors.most_lookups(lookup_shares.MOST_LOOKUPS)
        self._threads = ThreadPoolExecutor(most, thread_name_prefix="dns")
        self._shares = Shares(most)
        self._lookups: dict[str, Lookup] = {}
        # By host: the answers, with the time until which they count, on the loop's clock.
        self._kept: Remembered[str, tuple[float, Answers]] = Remembered(MOST_KEPT)
        self._waiting = 0
        self._next_controls_at = 0.0
        self._asks_controls = False

    async def resolve(self, host: str, port: int, *, is_guarded: bool = True) -> list[AddrInfo]:
        """Return the permitted addresses of the host: one family and the other in turn, each in the system's order.

        Without the guard, all are permitted: those of a proxy that the settings name.

        Raises AddressRefused if all addresses are forbidden, and OSError if the host has none. Raises LookupTimedOut at
        the deadline, or immediately if the name servers of the host's zone are known not to answer. Raises NotLookedUp
        if no thread was free for the look-up until half of the time was over, or if too many fetches wait for look-ups.
        """
        permitted: list[AddrInfo] = []
        refused: AddressRefused | None = None
        for family, kind, protocol, _, address in (await self._look_up(host))[:MOST_ANSWERS]:
            try:
                if is_guarded:
                    self._allowed.check(str(address[0]), port)
            except AddressRefused as error:
                refused = error
            else:
                permitted.append((family, kind, protocol, "", cast("SocketName", (address[0], port, *address[2:]))))
        if not permitted and refused is not None:
            raise AddressRefused(f"{host} resolves to {refused}")
        return permitted[:MOST_ADDRESSES]

    def close(self) -> None:
        """Begin no more look-ups; look-ups that have a thread go on, but their answers are not used."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _look_up(self, host: str) -> Answers:
        try:
            return await self._answers(host)
        except LookupTimedOut:
            self._doubt()
            raise
        except socket.gaierror as error:
            if error.errno in UNCLEAR_LOOKUP_ERRORS:
                self._doubt()
            raise

    async def _answers(self, host: str) -> Answers:
        loop = asyncio.get_running_loop()
        until, answers = self._kept.get(host, (0.0, []))
        if loop.time() < until:
            return answers
        lookup = self._lookups.get(host) or self._begin(host)
        if self._waiting >= MOST_WAITING and (lookup.is_slow or lookup.began_at is None):
            raise NotLookedUp(f"{self._waiting} fetches wait for look-ups")
        since = loop.time() if lookup.began_at is None else lookup.began_at
        self._waiting += 1
        lookup.waiting += 1
        try:  # at the deadline the look-up goes on
            await asyncio.wait([lookup.answers], timeout=since + self._timeout_s - loop.time())
        finally:
            self._waiting -= 1
            lookup.waiting -= 1
            self._withdraw(lookup)
        try:
            return self._result(lookup)
        finally:
            del lookup  # otherwise the traceback of the look-up's error would refer to the look-up

    def _result(self, lookup: Lookup) -> Answers:
        if not lookup.answers.done():
            raise self._gave_up(lookup)
        if (error := lookup.answers.exception()) is None:
            return lookup.answers.result()
        try:
            raise error.with_traceback(None)  # the same error may be raised in many fetches
        finally:
            del lookup, error

    def _begin(self, host: str) -> Lookup:
        lookup = Lookup(host, self, self._shares.zone(host))
        try:
            self._shares.ask(lookup, may_wait=self._waiting < MOST_WAITING)
        except ZoneSilent:
            raise self._timed_out(lookup) from None
        self._lookups[host] = lookup
        return lookup

    def start(self, lookup: Lookup) -> None:
        """Begin a look-up that may have a thread now. Only the look-up itself calls this."""
        loop = asyncio.get_running_loop()
        lookup.began_at = loop.time()
        lookup.timer = loop.call_at(lookup.began_at + SLOW * self._timeout_s, self._slow, lookup, lookup.began_at)
        try:
            found = asyncio.wrap_future(self._threads.submit(_ask, lookup.host))
        except RuntimeError as error:  # the system starts no more threads, or the resolver is closed
            found = loop.create_future()
            found.set_exception(NotLookedUp(str(error)))
        found.add_done_callback(partial(self._ended, lookup))

    def _slow(self, lookup: Lookup, began_at: float) -> None:
        lookup.is_slow = True
        # At its deadline, even if the loop was late for this call: no fetch stops waiting for it earlier. But a loop
        # that stood still beyond the deadline has yet to hear of answers that came meanwhile: it waits a little longer.
        loop = asyncio.get_running_loop()
        overdue_at = max(began_at + self._timeout_s, loop.time() + SLOW * self._timeout_s)
        lookup.timer = loop.call_at(overdue_at, self._overdue, lookup)
        self._shares.slow(lookup)

    def _overdue(self, lookup: Lookup) -> None:
        self._shares.overdue(lookup)
        self._doubt()

    def give_up(self, lookup: Lookup) -> None:
        """End a look-up that has no thread yet, because its zone does not answer. Only the look-up calls this."""
        self._lookups.pop(lookup.host, None)
        lookup.end(self._timed_out(lookup))

    def _ended(self, lookup: Lookup, found: "asyncio.Future[Answers]") -> None:
        self._lookups.pop(lookup.host, None)
        error = NotLookedUp("the resolver is closed") if found.cancelled() else found.exception()
        ending = LookupEnding.UNANSWERED if lookup.is_counted else _ending(error)  # a late answer does not count
        if ending is LookupEnding.FOUND:
            self._answered()
            self._keep(lookup.host, found.result())
        lookup.end(found.result() if error is None else error)
        self._shares.ended(lookup, ending)

    def _keep(self, host: str, answers: Answers) -> None:
        self._kept.note(host, (asyncio.get_running_loop().time() + KEPT_S, answers[:MOST_ANSWERS]))

    def _withdraw(self, lookup: Lookup) -> None:
        """Forget a look-up that has no thread yet, unless a fetch waits for it."""
        if lookup.began_at is None and not lookup.waiting and not lookup.answers.done():
            self._shares.withdraw(lookup)
            self._lookups.pop(lookup.host, None)

    def _gave_up(self, lookup: Lookup) -> Exception:
        zone, now = lookup.zone, asyncio.get_running_loop().time()
        if lookup.began_at is None and zone.silence and zone.is_full:
            return self._timed_out(lookup)
        if lookup.began_at is None or now - lookup.began_at < self._timeout_s / 2:
            return NotLookedUp("look-ups of other names have all threads")
        return LookupTimedOut(f"no answer from DNS for {lookup.host} within {self._timeout_s:g} s")

    def _timed_out(self, share: LookupShare) -> LookupTimedOut:
        zone = share.zone.name
        return LookupTimedOut(
            f"no answer from DNS for {zone} within {self._timeout_s:g} s; {share.host} was not asked for"
        )

    def _doubt(self) -> None:
        """Look up controls soon."""
        if not self._asks_controls:
            self._asks_controls = True
            loop = asyncio.get_running_loop()
            loop.call_at(max(loop.time(), self._next_controls_at), self._ask_controls)

    def _ask_controls(self) -> None:
        self._asks_controls = False
        self._next_controls_at = asyncio.get_running_loop().time() + CONTROLS_EVERY_S
        for host in self._shares.controls():
            if host not in self._lookups:
                with suppress(NotLookedUp, LookupTimedOut):
                    self._withdraw(self._begin(host))


def _ask(host: str) -> Answers:
    """Look the host up. Families of addresses take turns: one may be out of reach, and only the first are used."""
    of_families: dict[int, Answers] = {}
    for answer in cast("Answers", socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)):
        of_families.setdefault(answer[0], []).append(answer)
    return [answer for rank in zip_longest(*of_families.values()) for answer in rank if answer is not None]


def _ending(error: BaseException | None) -> LookupEnding:
    if error is None:
        return LookupEnding.FOUND
    if not isinstance(error, socket.gaierror) or error.errno in OWN_LOOKUP_ERRORS:
        return LookupEnding.OURS
    return LookupEnding.UNANSWERED if error.errno in UNCLEAR_LOOKUP_ERRORS else LookupEnding.DENIED
