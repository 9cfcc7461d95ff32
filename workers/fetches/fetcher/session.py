"""The session: an aiohttp session that is set up for paced requests, and the way of one job through it.

1. Where the site has `max_concurrency`, the job waits until the run may have one more in flight.
2. Shortly before the job's slot a connection is taken from the pool or opened (DNS, TCP, TLS), and held.
3. `PacedRequest` waits for the moment, asks the run whether the slot still stands, and writes (paced_request.py). Where
   the run is over, nothing is written: the job goes back to the queue, the connection to the pool.
4. The answer is read raw, up to the cap and the deadline.

On the loop's thread only; nothing here blocks or computes.
"""

import asyncio
import errno
import time
from collections.abc import Callable, Mapping
from functools import lru_cache
from ipaddress import ip_address
from socket import EAI_MEMORY, EAI_SYSTEM, gaierror

import aiohttp
import structlog
from django.conf import settings
from yarl import URL

from ratelimit.pacing import NEVER
from workers.fetches.addresses import AddressRefused, Allowed
from workers.fetches.fetcher.decoding import ACCEPT_ENCODING
from workers.fetches.fetcher.in_flight import Batch
from workers.fetches.fetcher.paced_request import (
    OPEN_AHEAD,
    Attempt,
    ConnectionClosedEarly,
    ConnectionTooSlow,
    PacedRequest,
    RunOver,
    current_attempt,
)
from workers.fetches.fetcher.resolver import GuardedResolver, NotLookedUp
from workers.fetches.fetcher.retry_after import REFUSING
from workers.fetches.fetcher.unanswered import Unanswered
from workers.fetches.jobs import Answer, Event, Failure, Job, Snoozed
from workers.fetches.robots.rules import MAX_RAW_BYTES

log = structlog.get_logger(__name__)

# What this process or its host has run out of: descriptors, buffers, memory. No site is to blame for it.
OWN_FAULTS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
REST_S = 1.0  # for which the fetcher takes no new messages after a fault of its own
SAY_EVERY_S = 60.0  # seconds between two lines in the log
NO_ANSWER = "the site closed the connection without an answer"
LONGEST_HEADER = 2**16  # bytes: sites send long ones, and browsers take four times as much in all
MOST_HEADERS = 1_000
MOST_CLOSED_ON = 10_000  # fetches that are remembered
REOPENINGS = 2  # how often a connection that was closed while it waited for its slot is replaced


class BodyTooLarge(Exception):
    """The body exceeds the cap before decompression already."""


class NotPaced(Exception):
    """An answer came to a request that had not waited for its slot."""


ENDINGS = (BodyTooLarge, ConnectionTooSlow, NotPaced)


class Session:
    """One a fetcher. It calls `refused` with the job and the headers of an answer that refuses more requests."""

    def __init__(self, allowed: Allowed, refused: Callable[[Job, Mapping[str, str]], None]) -> None:
        self._allowed = allowed
        self._refused = refused
        self._unanswered = Unanswered()
        self._rests_until = NEVER
        self._said_at = NEVER
        self._closed_on: dict[int, None] = {}  # fetches whose connection was closed when the request came, oldest first
        self._http = _client_session(allowed)

    async def close(self) -> None:
        await self._http.close()

    def rests(self) -> bool:
        """Tell whether this process had run out of something a moment ago. From any thread."""
        return time.monotonic() < self._rests_until

    async def fetch(self, job: Job, batch: Batch) -> Event:
        """Request the job's URL in its slot, and return the event in which that ends."""
        await asyncio.sleep(job.start_at - OPEN_AHEAD - time.monotonic())
        if job.concurrency is None:
            return await self._attempts(job, batch)
        try:
            async with asyncio.timeout(job.run.start_until - time.monotonic()):
                await job.concurrency.acquire()
        except TimeoutError:
            return Snoozed(job=job)
        try:
            return await self._attempts(job, batch)
        finally:
            job.concurrency.release()

    async def _attempts(self, job: Job, batch: Batch) -> Event:
        if job.run.is_over(time.monotonic()):  # the message was late, or the loop is
            return Snoozed(job=job)
        url = URL(job.url, encoded=True)
        for _ in range(1 + REOPENINGS):
            attempt = Attempt(job, batch, self._allowed, self._unanswered)
            try:
                async with attempt.deadline:
                    return await self._exchange(attempt, url)
            except ConnectionClosedEarly:
                continue
            except (NotLookedUp, RunOver, aiohttp.ServerDisconnectedError):
                return self._no_answer(attempt)
            except (*ENDINGS, aiohttp.ClientError, MemoryError, OSError, ValueError) as error:
                return self._failure(attempt, error)
            finally:
                attempt.end()
        return Failure(job=job, error="the site closes connections before a request can be sent")

    def _no_answer(self, attempt: Attempt) -> Event:
        """Return the event of an attempt whose request was not written, or got no answer at all.

        A site may close a connection that has waited for the next request just when the request comes, which is
        nobody's fault. So it counts nothing, but only once a fetch: some requests make a site close any connection.
        """
        job = attempt.job
        if attempt.started_at is None:
            return Snoozed(job=job)
        if not attempt.is_reused or job.fetch_id in self._closed_on:
            return attempt.failure(NO_ANSWER)
        self._closed_on[job.fetch_id] = None
        if len(self._closed_on) > MOST_CLOSED_ON:
            del self._closed_on[next(iter(self._closed_on))]
        return Snoozed(job=job, slot_used=True)

    def _failure(self, attempt: Attempt, error: Exception) -> Event:
        """Return the event of an attempt that ended by this error; one of our own counts nothing, and has us rest."""
        if isinstance(error, NotPaced):
            return Failure(job=attempt.job, error=str(error), permanent=True, slot_used=True)
        if not _is_own_fault(error):
            return attempt.failure(*_what_happened(error, written=attempt.started_at is not None))
        now = time.monotonic()
        self._rests_until = now + REST_S
        if now - self._said_at > SAY_EVERY_S:
            self._said_at = now
            log.error("fetcher_has_run_out", error=str(error))
        return Snoozed(job=attempt.job, slot_used=attempt.started_at is not None)

    async def _exchange(self, attempt: Attempt, url: URL) -> Answer:
        if (literal := _as_address(url.raw_host)) is not None:
            self._allowed.check(
                literal, url.port or 0
            )  # aiohttp does not ask the resolver for a host that is an address
        token = current_attempt.set(attempt)
        try:
            async with self._http.get(url, headers=_conditions(attempt.job), allow_redirects=False) as response:
                if attempt.started_at is None:
                    raise NotPaced("the request was not paced: install a version of aiohttp that Weir supports")
                if response.status in REFUSING:
                    self._refused(attempt.job, response.headers)
                body = await (_beginning(response, MAX_RAW_BYTES) if attempt.job.is_robots else _read(response))
                return attempt.answer(response, body)
        finally:
            current_attempt.reset(token)  # breaks a cycle: context, attempt, deadline, task, context


def _client_session(allowed: Allowed) -> aiohttp.ClientSession:
    connector = aiohttp.TCPConnector(
        limit=0,
        resolver=GuardedResolver(allowed=allowed, timeout_s=settings.WEIR_FETCH_DNS_TIMEOUT),
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


def _conditions(job: Job) -> dict[str, str]:
    """Return the headers that ask for the body only if it has changed."""
    if job.validators is None:
        return {}
    conditions = {"If-None-Match": job.validators.etag, "If-Modified-Since": job.validators.last_modified}
    return {name: value for name, value in conditions.items() if value}


def _what_happened(error: Exception, *, written: bool) -> tuple[str, bool]:
    """Return the error text for what ended an attempt, and whether another attempt would end the same."""
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        error = error.os_error
    if isinstance(error, (AddressRefused, BodyTooLarge)):
        return str(error), True
    if isinstance(error, ConnectionTooSlow):
        return str(error), False
    if isinstance(error, TimeoutError) and written:
        return f"no complete answer within {settings.WEIR_FETCH_TIMEOUT:g} s", False
    if isinstance(error, TimeoutError):
        return f"no connection within {settings.WEIR_FETCH_CONNECT_TIMEOUT:g} s", False
    return f"{type(error).__name__}: {error}", False


def _is_own_fault(error: Exception) -> bool:
    if isinstance(error, aiohttp.ClientConnectorError):
        error = error.os_error
    if isinstance(error, gaierror) and error.errno in {EAI_MEMORY, EAI_SYSTEM}:  # what the system's resolver needed
        return True
    return isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno in OWN_FAULTS)


async def _read(response: aiohttp.ClientResponse) -> bytes:
    most = settings.WEIR_FETCH_MAX_BODY
    body = await _beginning(response, most)
    if len(body) > most:
        raise BodyTooLarge(f"the body is larger than {most} bytes (WEIR_FETCH_MAX_BODY)")
    return body


async def _beginning(response: aiohttp.ClientResponse, most: int) -> bytes:
    """Return the body; of one that is longer than `most` bytes, a beginning of more than `most` bytes."""
    chunks: list[bytes] = []
    size = 0
    async for chunk in response.content.iter_any():
        size += len(chunk)
        chunks.append(chunk)
        if size > most:
            response.close()
            break
    return b"".join(chunks)


@lru_cache(maxsize=10_000)
def _as_address(host: str | None) -> str | None:
    try:
        return str(ip_address(host or ""))
    except ValueError:
        return None
