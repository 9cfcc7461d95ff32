"""The session: the way of one job through HTTP.

1. Shortly before its slot, the job begins. With `max_concurrency`, it waits until its run may have one more in flight.
2. A connection is taken from the pool, or opened (DNS, TCP, TLS).
3. The attempt waits for the slot, asks the run whether the slot still stands, and writes the request (attempt.py). If
   the run is over, nothing is written: the job goes back to the queue, and the connection to the pool.
4. The answer is read, still encoded, up to the cap and the deadline. Once its head has come, its status counts,
   whatever becomes of its body.

On the loop's thread only; nothing here blocks or computes.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from weir.conf import settings
from weir.logs.loggers import get_logger
from weir.ratelimit import clock
from weir.ratelimit.pacing import NEVER
from weir.workers.effects.performing.held import NotBegun
from weir.workers.fetches.addresses import Allowed
from weir.workers.fetches.fetcher.http import descriptors, heads
from weir.workers.fetches.fetcher.http.attempt import Attempt, AttemptContext, RunOver
from weir.workers.fetches.fetcher.http.connector import Connector
from weir.workers.fetches.fetcher.http.faults import ConnectionTooSlow, Fault, LookupFailed, Party, Respect, fault_of
from weir.workers.fetches.fetcher.http.lookup_shares import NotLookedUp
from weir.workers.fetches.fetcher.http.reachability import Reachability, evidence, has_route
from weir.workers.fetches.fetcher.http.resolver import GuardedResolver
from weir.workers.fetches.fetcher.in_flight import HeldJob
from weir.workers.fetches.fetcher.networks import network_of, refusal_of_proxy
from weir.workers.fetches.fetcher.refusals.asked import Headers
from weir.workers.fetches.fetcher.remembered import Remembered
from weir.workers.fetches.fetcher.room.spilling import BodyNotSpilled
from weir.workers.fetches.fetcher.wire.answers import AnswerReader, AnswerTooLarge, NotHttp
from weir.workers.fetches.fetcher.wire.channel import ProxyAsks
from weir.workers.fetches.fetcher.wire.connection import ConnectionClosedEarly, ConnectionEnded, HttpConnection
from weir.workers.fetches.fetcher.wire.pool import Pool
from weir.workers.fetches.fetcher.wire.requests import UnsendableRequest
from weir.workers.fetches.jobs import Answer, Event, Failure, Flaw, HeldBytes, Job, Snoozed
from weir.workers.fetches.robots.rules import MAX_RAW_BYTES, origin_of
from weir.workers.fetches.targets import parts_of
from weir.workers.tracing import correlation

log = get_logger(__name__)

PAUSE_S = 1.0  # seconds for which the fetcher takes no new messages after a fault of its own host
SAY_EVERY_S = 60.0  # seconds between two lines in the log about the same kind of fault
# Seconds for which a fetch is spared attempts while no site can be reached, or other answers hold all memory.
OUTAGE_S = 3_600.0
CLOSED_EARLY = "the site closes connections, or speaks, before a request can be sent"
NO_ANSWER = "the site closed the connection without an answer"
MOST_REMEMBERED = 10_000  # fetches with closed connections; fetches with outages
TIMED_OUT = 408  # the site has waited for a request in vain, and closes the connection (RFC 9110, 15.5.9)
PROXY_ASKS = 407  # the proxy wants to know who asks; no site says this (RFC 9110, 15.5.8)
CLOSINGS = 5  # how often a request is sent again without counting an attempt because the site closed a kept connection
REOPENINGS = 2  # how often a connection that was closed while it waited for its slot is replaced

CONNECTING = frozenset({Respect.LOOKUP, Respect.CONNECTION})
ENDED_BY_SITE = (ConnectionEnded, ConnectionResetError, BrokenPipeError)


class Session:
    """The HTTP session of one fetcher.

    It calls `answered` with the job, the status and the headers of each answer whose head has come; `unreachable` with
    the job after which a site counts as unreachable, and the error; and `started_out_of_time` as Attempt does.
    """

    def __init__(
        self,
        allowed: Allowed,
        answered: Callable[[Job, int, Headers], None],
        unreachable: Callable[[Job, str], None],
        started_out_of_time: Callable[[Job, float], None],
    ) -> None:
        self._shared = AttemptContext(allowed=allowed, started_out_of_time=started_out_of_time)
        self._answered = answered
        self._unreachable = unreachable
        self._paused_until = NEVER
        self._descriptors_used = 0.0
        self._said_at: dict[str, float] = {}  # by kind of fault
        # By fetch: how often its connection was closed, and since when our faults keep it; the oldest are forgotten.
        self._closed_on: Remembered[int, int] = Remembered(MOST_REMEMBERED)
        self._outages: Remembered[int, float] = Remembered(MOST_REMEMBERED)
        self._pool = Pool(asyncio.get_running_loop())
        self._connector = Connector(allowed, _resolver(allowed, self._shared.reachability))

    def close(self) -> None:
        """Close the connections that wait in the pool, and begin no more look-ups, and no effects."""
        self._pool.close()
        self._shared.begins.close()
        self._shared.disk.close()
        self._connector.close()

    def is_paused(self) -> bool:
        """Return whether this process lacks descriptors, or pauses after a fault of its own. From any thread."""
        return self._descriptors_used > descriptors.SHORT or clock.now() < self._paused_until

    def look_at_descriptors(self) -> None:
        """Record which part of the descriptors is used. From any thread."""
        self._descriptors_used = descriptors.used_part()

    def free(self, all_held: list[HeldBytes]) -> None:
        """Free these bytes, because the answers that held them are stored. On the loop's thread only."""
        self._shared.memory.free(self._shared.disk.freed(all_held))

    async def fetch(self, held: HeldJob) -> Event:
        """Request the job's URL in its slot, and return the event in which the attempt ends."""
        correlation.bind(held.job.correlation_id)  # in the asyncio task of this job, which has a context of its own
        event = await self._in_slot(held)
        if isinstance(event, Answer) or (isinstance(event, Failure) and event.is_last):
            self._closed_on.pop(held.job.fetch_id, None)
            self._outages.pop(held.job.fetch_id, None)
        return event

    async def _in_slot(self, held: HeldJob) -> Event:
        job = held.job
        await asyncio.sleep(job.start_at - self._shared.openings.ahead_s(job.site_id) - clock.now())
        if job.concurrency is None:
            return await self._attempts(held)
        try:
            async with asyncio.timeout(job.run.start_until - clock.now()):
                await job.concurrency.acquire()
        except TimeoutError:
            return Snoozed(job=job)
        try:
            return await self._attempts(held)
        finally:
            job.concurrency.release()

    async def _attempts(self, held: HeldJob) -> Event:
        job = held.job
        if job.run.is_over(clock.now()):  # the message was late, or the loop is late
            return Snoozed(job=job)
        said = ""
        for _ in range(1 + REOPENINGS):
            attempt = Attempt(held, self._shared)
            try:
                return await self._exchange(attempt)
            except ConnectionClosedEarly as early:
                said = f": {early}" if str(early) else said
            except UnsendableRequest as error:
                return attempt.as_failure(str(error), permanent=error.is_permanent)
            except (NotBegun, NotLookedUp, RunOver) as error:
                if isinstance(error, NotLookedUp):
                    self._say("hosts_not_looked_up", str(error))
                return Snoozed(job=job)
            except (ConnectionTooSlow, LookupFailed, MemoryError, OSError) as error:
                return await self._failure(attempt, error)
            finally:
                attempt.end()
        return Failure(job=job, error=f"{CLOSED_EARLY}{said}")

    async def _exchange(self, attempt: Attempt) -> Event:
        """Send the request over a connection to its origin, and return the event in which the attempt ends."""
        to = parts_of(attempt.job.url)
        is_last = self._descriptors_used > descriptors.SCARCE  # the last request on its connection
        network = network_of(attempt.job)
        request = heads.request(attempt.job, to, is_last=is_last, network=network)
        attempt.secrets, attempt.pool_key = request.secrets, (origin_of(attempt.job.url), network.key)
        connection = self._kept(attempt) or await self._connector.open(to, attempt.tried, network)
        try:
            attempt.note_connection(connection)
            most = MAX_RAW_BYTES if attempt.job.is_robots else attempt.job.most_body  # encoded as on the wire
            reader = AnswerReader(most, has_body=attempt.job.method != "HEAD")
            await attempt.write_in_turn(connection, request, reader)
            return await self._answer(attempt, connection, reader)
        except ConnectionClosedEarly:
            if attempt.is_reused:
                self._pool.gave_up(attempt.pool_key, connection)
            raise
        finally:
            if is_last:
                connection.close()
            self._pool.give_back(attempt.pool_key, connection)

    def _kept(self, attempt: Attempt) -> HttpConnection | None:
        """Return a kept connection. The site may be closing it, so a request that is made once gets a new one."""
        if attempt.job.effect is not None or self._closed_on.get(attempt.job.fetch_id, 0) >= CLOSINGS:
            return None
        return self._pool.take(attempt.pool_key, max(0.0, attempt.job.start_at - clock.now()))

    async def _answer(self, attempt: Attempt, connection: HttpConnection, reader: AnswerReader) -> Event:
        """Wait for the answer, and return the event in which the attempt ends."""
        cut: Exception | None = None
        try:
            await connection.answer()
            if not reader.keeps_alive:
                connection.close()
        except (NotHttp, AnswerTooLarge, BodyNotSpilled, ConnectionEnded, MemoryError, OSError) as error:
            if isinstance(error, ENDED_BY_SITE) and not reader.has_begun:
                return self._no_answer(attempt, connection)
            if not reader.has_head:
                return await self._failure(attempt, error)
            cut = error
        if reader.status_code == PROXY_ASKS and connection.by_proxy:
            return self._refused_by_proxy(attempt)
        self._shared.reachability.reached(Respect.ANSWER)
        self._answered(attempt.job, reader.status_code, attempt.headers_of(reader))
        if reader.status_code == TIMED_OUT and not reader.keeps_alive and self._is_spared_closing(attempt, connection):
            return attempt.as_spared()
        if cut is not None:
            return await self._cut(attempt, reader, cut)
        return attempt.as_answer(reader, Flaw.TOO_LARGE if reader.is_too_large else Flaw.NONE)

    async def _cut(self, attempt: Attempt, reader: AnswerReader, error: Exception) -> Event:
        """Return the event of an answer whose body is not whole; if that is our fault, as if no answer had come."""
        if isinstance(error, BodyNotSpilled) and attempt.job.effect is None:
            return attempt.as_failure(str(error))
        if isinstance(error, AnswerTooLarge):
            return attempt.as_answer(reader, Flaw.TOO_LARGE, str(error))
        event = await self._failure(attempt, error)
        said = event.error if isinstance(event, Failure) else str(error)
        return attempt.as_answer(reader, Flaw.CUT, said) if isinstance(event, Failure) or attempt.job.effect else event

    def _refused_by_proxy(self, attempt: Attempt) -> Event:
        """Return the event of an attempt that a proxy answers with 407, which it would answer to all of the site."""
        failure = replace(attempt.as_failure(refusal_of_proxy(network_of(attempt.job))), is_refused=True)
        self._unreachable(attempt.job, failure.error)
        return failure

    def _no_answer(self, attempt: Attempt, connection: HttpConnection) -> Event:
        """Return the event of an attempt whose request was written and got no answer at all.

        If the site only closed a kept connection, no attempt is counted.
        """
        is_spared = self._is_spared_closing(attempt, connection)
        return attempt.as_spared() if is_spared else attempt.as_failure(NO_ANSWER)

    def _is_spared_closing(self, attempt: Attempt, connection: HttpConnection) -> bool:
        """Record that the site gave up the connection as the request came; return whether no attempt is counted.

        No attempt is counted if the connection had been kept, CLOSINGS times for a fetch at most. After that, the fetch
        gets new connections.
        """
        if not attempt.is_reused:
            return False
        self._pool.gave_up(attempt.pool_key, connection)
        closings = self._closed_on.get(attempt.job.fetch_id, 0)
        if closings >= CLOSINGS:
            return False
        self._closed_on.note(attempt.job.fetch_id, closings + 1)
        return True

    async def _failure(self, attempt: Attempt, error: Exception) -> Event:
        """Return the event of an attempt that ended with this error. Our own fault counts no attempt, and we pause.

        A site to which connecting fails again and again is backed off.
        """
        if isinstance(error, ProxyAsks):
            return self._refused_by_proxy(attempt)
        job, written = attempt.job, attempt.started_at is not None
        fault = fault_of(error, written=written, tried=attempt.tried, has_route=has_route)
        failure = attempt.as_failure(fault.error, fault.permanent)  # its times are taken before the wait for evidence
        if fault.party is Party.OTHERS:  # no pause: sites whose answers have room need not wait
            self._say("fetcher_has_run_out", fault.error)
            return Snoozed(job=job, slot_used=written, reason=fault.error) if self._is_spared(job) else failure
        if fault.party is Party.OURS:
            self._pause("fetcher_has_run_out", fault)
            return Snoozed(job=job, slot_used=written)
        if fault.party is Party.UNCLEAR and await self._is_outage(job, fault):
            if not self._shared.reachability.has_answers_since(clock.now() - PAUSE_S):
                self._pause("no_site_is_reached", fault)
            return Snoozed(job=job, slot_used=written)
        if fault.respect in CONNECTING and self._shared.reachability.is_unreachable(job.site_id):
            self._unreachable(job, fault.error)
        return failure

    async def _is_outage(self, job: Job, fault: Fault) -> bool:
        """Return whether our resolver or uplink is to blame, and no attempt is to be counted."""
        known, respect = self._shared.reachability, fault.respect
        if respect is None or not await known.is_our_fault(respect, evidence(respect, job)):
            return False
        return self._is_spared(job)

    def _is_spared(self, job: Job) -> bool:
        """Return whether this fetch is spared an attempt: only for OUTAGE_S since it was first spared one."""
        began_at = self._outages.get(job.fetch_id, clock.now())
        self._outages.note(job.fetch_id, began_at)
        return clock.now() - began_at < OUTAGE_S

    def _pause(self, event: str, fault: Fault) -> None:
        self._paused_until = clock.now() + PAUSE_S
        self._say(event, fault.error)

    def _say(self, event: str, error: str) -> None:
        now = clock.now()
        if now - self._said_at.get(event, NEVER) > SAY_EVERY_S:
            self._said_at[event] = now
            log.error(event, error=error)


def _resolver(allowed: Allowed, reachability: Reachability) -> GuardedResolver:
    return GuardedResolver(
        allowed=allowed,
        timeout_s=settings.WEIR_FETCH_DNS_TIMEOUT,
        answered=partial(reachability.reached, Respect.LOOKUP),
    )
