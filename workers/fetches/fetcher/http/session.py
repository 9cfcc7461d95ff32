"""The session: an aiohttp session that is set up for paced requests, and the way of one job through it.

1. Where the site has `max_concurrency`, the job waits until the run may have one more in flight.
2. Shortly before the job's slot a connection is taken from the pool or opened (DNS, TCP, TLS), and held.
3. `PacedRequest` waits for the moment, asks the run whether the slot still stands, and writes (paced_request.py). Where
   the run is over, nothing is written: the job goes back to the queue, the connection to the pool.
4. The answer is read raw, up to the cap and the deadline.

On the loop's thread only; nothing here blocks or computes.
"""

import asyncio
import socket
from collections.abc import Callable
from functools import lru_cache, partial
from ipaddress import ip_address
from typing import Any

import aiohttp
import structlog
from django.conf import settings
from yarl import URL

from ratelimit import clock
from ratelimit.pacing import NEVER
from workers.fetches.addresses import Allowed
from workers.fetches.fetcher.http import descriptors
from workers.fetches.fetcher.http.faults import AnswerTooLarge, ConnectionTooSlow, Fault, Party, Respect, fault_of
from workers.fetches.fetcher.http.paced_request import (
    Attempt,
    ConnectionClosedEarly,
    PacedRequest,
    RunOver,
    Shared,
    current_attempt,
)
from workers.fetches.fetcher.http.reachability import Reachability, has_route
from workers.fetches.fetcher.http.resolver import GuardedResolver, NotLookedUp
from workers.fetches.fetcher.in_flight import HeldJob
from workers.fetches.fetcher.refusals.asked import Headers
from workers.fetches.fetcher.results.decoding import ACCEPT_ENCODING
from workers.fetches.jobs import Answer, Event, Failure, Job, Reservation, Snoozed
from workers.fetches.robots.rules import MAX_RAW_BYTES
from workers.tracing import correlation

log = structlog.get_logger(__name__)

REST_S = 1.0  # for which the fetcher takes no new messages after a fault of its own host
SAY_EVERY_S = 60.0  # seconds between two lines in the log about the same kind of fault
# For so long, a fetch is given back without an attempt because sites cannot be reached. Some never can: it has an end.
OUTAGE_S = 3_600.0
NO_ANSWER = "the site closed the connection without an answer"
LONGEST_HEADER = 2**16  # bytes: sites send long ones
MOST_HEADERS = 128
MOST_HEADER_BYTES = 2**18  # of an answer, as browsers take: they are copied and stored as they are
MOST_REMEMBERED = 10_000  # fetches, of each kind
CLOSINGS = 5  # how often a request that a site closes its kept connection on is sent again at no cost
REOPENINGS = 2  # how often a connection that was closed while it waited for its slot is replaced


class NotPaced(Exception):
    """An answer came to a request that had not waited for its slot."""


ENDINGS = (AnswerTooLarge, ConnectionTooSlow, NotPaced)
CONNECTING = frozenset({Respect.LOOKUP, Respect.CONNECTION})


class Session:
    """One a fetcher.

    It calls `answered` with the job, the status and the headers of each answer whose head has come, and `unreachable`
    with the job after which a site counts as unreachable, and the error.
    """

    def __init__(
        self,
        allowed: Allowed,
        answered: Callable[[Job, int, Headers], None],
        unreachable: Callable[[Job, str], None],
    ) -> None:
        self._shared = Shared(allowed=allowed)
        self._answered = answered
        self._unreachable = unreachable
        self._rests_until = NEVER
        self._descriptors_used = 0.0
        self._said_at: dict[str, float] = {}  # by kind of fault
        # By fetch, oldest first: how often its connection was closed as the request came, and since when our fault has
        # kept it from its site. Until it gets an answer, or ends; other fetchers may see that end, so the oldest go.
        self._closed_on: dict[int, int] = {}
        self._outages: dict[int, float] = {}
        self._http = _client_session(allowed, self._shared.reachability)

    async def close(self) -> None:
        await self._http.close()

    def rests(self) -> bool:
        """Tell whether this process has run out of something, or had a moment ago. From any thread."""
        return (
            self._descriptors_used > descriptors.SHORT or self._shared.budget.is_full or clock.now() < self._rests_until
        )

    def look_at_descriptors(self) -> None:
        """Note which part of the descriptors is used. From any thread."""
        self._descriptors_used = descriptors.used_part()

    def free(self, reservations: list[Reservation]) -> None:
        """Note that the bodies that held these bytes are stored. On the loop's thread only."""
        for reservation in reservations:
            self._shared.budget.free(reservation)

    async def fetch(self, held: HeldJob) -> Event:
        """Request the job's URL in its slot, and return the event in which that ends."""
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
        if job.run.is_over(clock.now()):  # the message was late, or the loop is
            return Snoozed(job=job)
        url = URL(job.url, encoded=True)
        for _ in range(1 + REOPENINGS):
            attempt = Attempt(held, self._shared)
            try:
                async with attempt.deadline:
                    return await self._exchange(attempt, url)
            except ConnectionClosedEarly:
                continue
            except NotLookedUp as error:
                self._say("hosts_not_looked_up", str(error))
                return self._no_answer(attempt)
            except (RunOver, aiohttp.ServerDisconnectedError):
                return self._no_answer(attempt)
            except (*ENDINGS, aiohttp.ClientError, MemoryError, OSError, ValueError) as error:
                return await self._failure(attempt, error)
            finally:
                attempt.end()
        return Failure(job=job, error="the site closes connections before a request can be sent")

    def _no_answer(self, attempt: Attempt) -> Event:
        """Return the event of an attempt whose request was not written, or got no answer at all.

        A site may close a connection that has waited for the next request just when the request comes, which is
        nobody's fault. So it counts nothing, CLOSINGS times at most: in the end a new connection is tried.
        """
        job = attempt.job
        if attempt.started_at is None:
            return Snoozed(job=job)
        closings = self._closed_on.pop(job.fetch_id, 0)
        if not attempt.is_reused or closings >= CLOSINGS:
            return attempt.failure(NO_ANSWER)
        self._closed_on[job.fetch_id] = closings + 1
        _forget_oldest(self._closed_on)
        return Snoozed(job=job, slot_used=True)

    async def _failure(self, attempt: Attempt, error: Exception) -> Event:
        """Return the event of an attempt that ended by this error; what is our fault counts nothing, and has us rest.

        The site is backed off where it cannot be connected to again and again.
        """
        job, written = attempt.job, attempt.started_at is not None
        if isinstance(error, NotPaced):
            return Failure(job=job, error=str(error), permanent=True, slot_used=True)
        fault = fault_of(
            error, written=written, tried=attempt.tried, has_route=has_route, lost_by=attempt.connection_lost_by()
        )
        failure = attempt.failure(fault.error, fault.permanent)
        if fault.party is Party.OURS:
            self._rest("fetcher_has_run_out", fault)
            return Snoozed(job=job, slot_used=written)
        if fault.party is Party.UNCLEAR and await self._is_outage(job, fault):
            if not self._shared.reachability.has_answers_since(clock.now() - REST_S):
                self._rest("no_site_is_reached", fault)
            return Snoozed(job=job, slot_used=written)
        if fault.respect in CONNECTING and self._shared.reachability.is_unreachable(job.site_id):
            self._unreachable(job, fault.error)
        return failure

    async def _is_outage(self, job: Job, fault: Fault) -> bool:
        """Tell whether our resolver or uplink is to blame, which a fetch is spared for OUTAGE_S only."""
        if fault.respect is None or not await self._shared.reachability.is_our_fault(fault.respect, job.site_id):
            return False
        began_at = self._outages.setdefault(job.fetch_id, clock.now())
        _forget_oldest(self._outages)
        return clock.now() - began_at < OUTAGE_S

    def _rest(self, event: str, fault: Fault) -> None:
        self._rests_until = clock.now() + REST_S
        self._say(event, fault.error)

    def _say(self, event: str, error: str) -> None:
        now = clock.now()
        if now - self._said_at.get(event, NEVER) > SAY_EVERY_S:
            self._said_at[event] = now
            log.error(event, error=error)

    async def _exchange(self, attempt: Attempt, url: URL) -> Answer:
        if (literal := _as_address(url.raw_host)) is not None:
            self._shared.allowed.check(literal, url.port or 0)  # aiohttp asks the resolver for names only
        token = current_attempt.set(attempt)
        try:
            async with self._http.get(url, headers=self._headers(attempt.job), allow_redirects=False) as response:
                if attempt.started_at is None:
                    raise NotPaced("the request was not paced: install a version of aiohttp that Weir supports")
                self._shared.reachability.reached(Respect.ANSWER)
                self._answered(attempt.job, response.status, response.raw_headers)
                if sum(len(name) + len(value) for name, value in response.raw_headers) > MOST_HEADER_BYTES:
                    raise AnswerTooLarge(f"the headers are larger than {MOST_HEADER_BYTES} bytes together")
                return attempt.answer(response, await self._read(attempt, response))
        finally:
            current_attempt.reset(token)  # breaks a cycle: context, attempt, deadline, task, context

    def _headers(self, job: Job) -> dict[str, str]:
        """Return those that save descriptors where they are scarce, and those that ask for changes only."""
        headers = {"Connection": "close"} if self._descriptors_used > descriptors.SCARCE else {}
        if job.validators is not None:
            headers |= {"If-None-Match": job.validators.etag, "If-Modified-Since": job.validators.last_modified}
        return {name: value for name, value in headers.items() if value}

    @staticmethod
    async def _read(attempt: Attempt, response: aiohttp.ClientResponse) -> bytes:
        if attempt.job.is_robots:
            return await attempt.body.read(response, MAX_RAW_BYTES, attempt.deadline)
        most = settings.WEIR_FETCH_MAX_BODY
        body = await attempt.body.read(response, most, attempt.deadline)
        if len(body) > most:
            raise AnswerTooLarge(f"the body is larger than {most} bytes (WEIR_FETCH_MAX_BODY)")
        return body


def _client_session(allowed: Allowed, reachability: Reachability) -> aiohttp.ClientSession:
    connector = aiohttp.TCPConnector(
        limit=0,
        socket_factory=_noted_socket,
        resolver=GuardedResolver(
            allowed=allowed,
            timeout_s=settings.WEIR_FETCH_DNS_TIMEOUT,
            answered=partial(reachability.reached, Respect.LOOKUP),
        ),
    )
    return aiohttp.ClientSession(
        connector=connector,
        request_class=PacedRequest,
        max_line_size=LONGEST_HEADER,
        max_field_size=LONGEST_HEADER,
        max_headers=MOST_HEADERS,
        auto_decompress=False,  # the writer does it, within the cap
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={
            "User-Agent": settings.WEIR_FETCH_USER_AGENT,
            "Accept": "*/*",
            "Accept-Encoding": ACCEPT_ENCODING,
        },
        timeout=aiohttp.ClientTimeout(
            total=None,  # counted from the writing of the request, not from here (Attempt.note_start)
            connect=settings.WEIR_FETCH_DNS_TIMEOUT + settings.WEIR_FETCH_CONNECT_TIMEOUT,
            sock_connect=settings.WEIR_FETCH_CONNECT_TIMEOUT,
        ),
    )


def _noted_socket(tried: aiohttp.AddrInfoType) -> socket.socket:
    """Return a socket for a connection to this address, and note the address in the attempt."""
    family, kind, protocol, _, address = tried
    current_attempt.get().tried.add((family, address))
    return socket.socket(family, kind, protocol)


def _forget_oldest(known: dict[int, Any]) -> None:
    if len(known) > MOST_REMEMBERED:
        del known[next(iter(known))]


@lru_cache(maxsize=10_000)
def _as_address(host: str | None) -> str | None:
    try:
        return str(ip_address(host or ""))
    except ValueError:
        return None
