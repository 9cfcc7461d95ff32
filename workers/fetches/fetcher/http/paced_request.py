"""One paced request: it waits for its slot with an open connection, writes, and only then notes the start.

aiohttp calls `send` of a request when it has a connection for it, new or from the pool. A `PacedRequest` then acts:
1. It checks the address that the connection really leads to, and notes how long the connection took to open.
2. It waits for the slot, and until the run, and the room for unanswered requests, let it start.
3. It writes.
4. It reads the clock and notes the start, which is therefore never earlier than the real one.

So DNS, TCP and TLS lie before the slot, and only the write lies in it.
"""

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from weakref import WeakSet

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from django.conf import settings

from ratelimit import clock
from workers.fetches.addresses import Allowed
from workers.fetches.fetcher.http.bodies import Body, Budget
from workers.fetches.fetcher.http.faults import ConnectionTooSlow, Respect, SocketAddress
from workers.fetches.fetcher.http.openings import OPEN_AHEAD, Openings
from workers.fetches.fetcher.http.reachability import Reachability
from workers.fetches.fetcher.http.unanswered import Unanswered
from workers.fetches.fetcher.in_flight import HeldJob, Stage
from workers.fetches.jobs import Answer, Failure, Job

SHORTEST_SLEEP = 0.001  # seconds
RECHECK_EVERY = 0.01  # seconds between two checks of a request whose slot has come, and which may not start yet
BUSY = 0.02  # seconds: a loop that takes longer to go around once is busy
MISSED_AFTER = 0.005  # seconds after the end of its run at which a job without a connection counts as missed


class RunOver(Exception):
    """The request can no longer be written in its run."""


class ConnectionClosedEarly(Exception):
    """The site closed the connection before the request was written: nothing was sent, another may be opened."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Shared:
    """What all attempts of one fetcher share."""

    allowed: Allowed
    late_start: Callable[[Job, float], None] = lambda _job, _late_by_s: None
    unanswered: Unanswered = field(default_factory=Unanswered)
    openings: Openings = field(default_factory=Openings)
    reachability: Reachability = field(default_factory=Reachability)
    budget: Budget = field(default_factory=Budget)


class Attempt:
    """One try to request a job's URL, over one connection. On the loop's thread only."""

    def __init__(self, held: HeldJob, shared: Shared) -> None:
        self.job = held.job
        self.deadline = asyncio.timeout(None)  # begins when the request is written
        self.started_at: float | None = None
        self.is_reused = False  # its connection has carried a request before: the site may be just closing it
        self.tried: set[SocketAddress] = set()  # the addresses to which a connection was begun
        self.body = Body(shared.budget, self.job.site_id)
        self._address = ""
        self._closed: asyncio.Future[None] | None = None  # ends when its connection does
        self._held = held
        self._shared = shared
        self._site_is_slow = shared.openings.are_known_slow(self.job.site_id)
        self._began_at = clock.now()
        self._opened_s = 0.0
        over_in_s = max(0.0, self.job.run.start_until - self._began_at) + MISSED_AFTER
        self._missing = asyncio.get_running_loop().call_later(over_in_s, held.miss)

    def note_connection(self, connection: Connection) -> None:
        """Note the connection that was opened, or taken from the pool.

        Raises AddressRefused unless the address that it really leads to may be fetched from, and RunOver where the
        request was written before: aiohttp would repeat it by itself, which needs a slot of its own.
        """
        if self.started_at is not None:
            raise RunOver
        self._missing.cancel()
        if connection.transport is not None:
            self._address, port, *_ = connection.transport.get_extra_info("peername")
            self._shared.allowed.check(self._address, port)
        self.is_reused = connection.protocol in _used
        self._closed = connection.protocol.closed if connection.protocol is not None else None
        if self._closed is not None and not self.is_reused:
            self._closed.add_done_callback(_retrieve)
        self._opened_s = clock.now() - self._began_at
        if not self.is_reused:
            self._shared.openings.note(self.job.site_id, self._opened_s)
            self._shared.reachability.reached(Respect.CONNECTION)
        self._shared.reachability.connected(self.job.site_id)

    async def wait_for_turn(self) -> None:
        """Return at the moment at which the request may be written; raises RunOver when there is none left."""
        run, start_at = self.job.run, self.job.start_at
        has_waited = False
        while not run.is_over(now := clock.now()):
            wait_s = run.ready_at(start_at) - now
            if wait_s <= 0 and run.may_start(now) and self._has_room():
                return
            if wait_s <= 0:  # not confirmed, or no room for the site: many requests may wait for that, and for long
                wait_s = RECHECK_EVERY
            # uvloop's timers count whole milliseconds and fire up to one early: a shorter sleep would be a busy loop.
            await asyncio.sleep(max(wait_s, SHORTEST_SLEEP))
            has_waited = True
        if has_waited or self._opened_s < OPEN_AHEAD or not self._site_is_slow or await _loop_is_busy():
            raise RunOver
        raise ConnectionTooSlow(f"the connection took {self._opened_s:.1f} s to open, longer than its slot could wait")

    def note_start(self) -> None:
        """Note that the request has been written. Called after the write: the next start is never counted too early.

        Calls `late_start` with the job, and by how many seconds it was written out of its time, where it was.
        """
        self.started_at = clock.now()
        late_by_s = self.job.run.out_of_time_s(self.started_at)
        self.job.run.started(self.started_at)
        self.deadline.reschedule(asyncio.get_running_loop().time() + settings.WEIR_FETCH_TIMEOUT)
        self._shared.unanswered.began(self.job.site_id, self._address)
        self._held.move(Stage.WRITTEN)
        if late_by_s:
            self._shared.late_start(self.job, late_by_s)

    def connection_lost_by(self) -> BaseException | None:
        """Return the error by which the connection was lost; None where there was none."""
        return self._closed.exception() if self._closed is not None and self._closed.done() else None

    def end(self) -> None:
        """Note that the attempt has ended: where a request was written, its room for an answer is free again."""
        self._missing.cancel()
        self.body.drop()
        # The connection remembers the attempt that opened it, and the deadline leads to the task and its answer.
        del self.deadline
        if self.started_at is not None:
            self._shared.unanswered.ended(self.job.site_id, self._address)

    def _has_room(self) -> bool:
        return self._shared.unanswered.has_room_for(self.job.site_id, self._address)

    def answer(self, response: aiohttp.ClientResponse, body: bytes) -> Answer:
        """Return the event of a whole answer, with its times."""
        lateness_ms, elapsed_ms = self._times_ms()
        return Answer(
            job=self.job,
            status_code=response.status,
            headers=response.raw_headers,
            body=body,
            reservation=self.body.keep(len(body)),
            lateness_ms=lateness_ms or 0.0,
            elapsed_ms=elapsed_ms or 0.0,
        )

    def failure(self, error: str, permanent: bool = False) -> Failure:
        """Return the event of a failure, with its times where a request was written."""
        lateness_ms, elapsed_ms = self._times_ms()
        return Failure(job=self.job, error=error, permanent=permanent, lateness_ms=lateness_ms, elapsed_ms=elapsed_ms)

    def _times_ms(self) -> tuple[float | None, float | None]:
        if self.started_at is None:
            return None, None
        return (self.started_at - self.job.start_at) * 1000, (clock.now() - self.started_at) * 1000


def _retrieve(closed: asyncio.Future[None]) -> None:
    """Have asyncio not complain that nobody has asked why a connection was lost."""
    closed.exception()


async def _loop_is_busy() -> bool:
    """Tell whether the loop is so busy that a late connection may be the fetcher's own fault."""
    asked_at = clock.now()
    await asyncio.sleep(0)
    return clock.now() - asked_at > BUSY


current_attempt: ContextVar[Attempt] = ContextVar("attempt")


if not hasattr(aiohttp.ClientRequest, "send"):  # pragma: no cover  it would never be called, and nothing be paced
    raise ImportError(f"aiohttp {aiohttp.__version__} has no ClientRequest.send: install a version that Weir supports.")

_used: WeakSet[ResponseHandler] = WeakSet()  # connections that have carried a request


class PacedRequest(aiohttp.ClientRequest):
    """A request that waits for its slot with its connection open."""

    async def send(self, conn: Connection) -> aiohttp.ClientResponse:
        """Write the request in its slot."""
        attempt = current_attempt.get()
        try:
            attempt.note_connection(conn)
            await attempt.wait_for_turn()
        except BaseException:
            conn.release()  # nothing was written to it: the pool may keep it
            raise
        if conn.protocol is None or not conn.protocol.is_connected():
            raise ConnectionClosedEarly
        _used.add(conn.protocol)
        try:
            return await super().send(conn)  # writes at once: it awaits nothing before
        finally:
            attempt.note_start()
