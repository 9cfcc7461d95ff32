"""The fetcher: one event loop a process, which writes each request in its slot and reads the answer within limits.

The way of one job:
1. Shortly before its slot a connection is taken from the pool or opened (DNS, TCP, TLS), and held.
2. `paced_request` waits for the moment, asks the run whether the lane is still ours, and writes.
3. A run that is over is not stretched: the job goes back to the queue, its connection to the pool.
4. The answer is read raw, up to the cap and the deadline, and handed to the writer (store.py), which judges it. One by
   which the site refuses more requests ends all that still waits in its lane, here at once and elsewhere by a recall.
5. A recall (watch.py) ends what waits in a lane that was paused, backed off or given another rate.
Nothing in the loop's thread blocks or computes.
"""

import asyncio
import gc
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from datetime import datetime
from functools import lru_cache
from ipaddress import ip_address
from typing import TypeVar

import aiohttp
import structlog
import uvloop
from django.conf import settings
from django.db import InterfaceError, OperationalError, connection
from yarl import URL

from ratelimit.pacing import NEVER, Confirmation
from ratelimit.slots import Recall
from workers.fetches import robots_gate
from workers.fetches.address_guard import AddressRefused, GuardedResolver, NotLookedUp, check_address, networks
from workers.fetches.claim import Job, claim, take_over
from workers.fetches.outcomes import ACCEPT_ENCODING, Answer, Event, GivenBack, Trouble
from workers.fetches.paced_request import (
    OPEN_AHEAD,
    Attempt,
    Batch,
    ConnectionClosedEarly,
    ConnectionTooSlow,
    PacedRequest,
    RunOver,
    Unanswered,
    current_attempt,
)
from workers.fetches.refusals import REFUSING, refusal
from workers.fetches.robots import MAX_RAW_BYTES
from workers.fetches.robots_files import RobotsFiles
from workers.fetches.store import Writer
from workers.fetches.under_way import UnderWay
from workers.fetches.user_agent import has_contact
from workers.fetches.watch import Watch

log = structlog.get_logger(__name__)

Result = TypeVar("Result")
NO_ANSWER = "the site closed the connection without an answer"
REOPENINGS = 2  # how often a connection that was closed while it waited for its slot is replaced


class BodyTooLarge(Exception):
    """The body exceeds the cap before decompression already."""


class Fetcher:
    """The loop thread, its HTTP session and its writer. One a process."""

    def __init__(self) -> None:
        sys.setswitchinterval(0.0005)  # other threads of the process hold up the loop by half a millisecond at most
        # The collector stops the loop. A fetch leaves it no cycles to find, so it may look seldom: with the usual 700
        # it took a third of the time, in pauses longer than a slot can wait.
        gc.collect()
        gc.freeze()
        gc.set_threshold(50_000, 10, 100)
        if not has_contact(settings.WEIR_FETCH_USER_AGENT):
            log.warning("user_agent_without_contact", user_agent=settings.WEIR_FETCH_USER_AGENT)
        self._allowed = networks(settings.WEIR_FETCH_ALLOW_NETS)
        self._writer = Writer(self._stored)
        # A thread of its own keeps its connection; Celery closes those of its threads after each task.
        self._claimer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="fetch-claimer")
        self._room = threading.Condition()
        self._held = 0
        self._stopping = False
        self._robots_files = RobotsFiles()
        self._under_way = UnderWay()
        self._unanswered = Unanswered()
        self._confirmation = Confirmation(asked_at=NEVER)
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fetch-loop", daemon=True)
        self._thread.start()
        self._session = asyncio.run_coroutine_threadsafe(self._open_session(), self._loop).result()
        self._watch = Watch(self._heard)

    def run_batch(self, slot_ids: list[int]) -> None:
        """Claim the fetches of one message's slots and return when each has been sent, or cannot be any more.

        Blocks while the process holds WEIR_FETCH_MAX_IN_FLIGHT fetches. Their answers are read and stored afterwards.
        """
        with self._room:
            most = max(settings.WEIR_FETCH_MAX_IN_FLIGHT, len(slot_ids))
            while not self._stopping and self._held + len(slot_ids) > most:
                self._room.wait(timeout=1)  # stop_starting runs in a signal handler and cannot notify
            if self._stopping:
                return  # sweep gives them to another process
            self._held += len(slot_ids)
        jobs: list[Job] = []
        turned_away: list[Event] = []
        try:
            jobs, turned_away = self._claimer.submit(self._claim, slot_ids).result()
        finally:
            self._stored(len(slot_ids) - len(jobs) - len(turned_away))
        for event in turned_away:
            self._writer.put(event)
        if jobs:
            batch = Batch(jobs)
            self._loop.call_soon_threadsafe(self._start, jobs, batch)
            batch.wait()

    def _claim(self, slot_ids: list[int]) -> tuple[list[Job], list[Event]]:
        return robots_gate.sort(_reconnecting(claim, slot_ids, self._confirmation), self._robots_files)

    def stop_starting(self) -> None:
        """Give back what has not been sent yet. For a signal handler: returns at once."""
        self._stopping = True
        self._loop.call_soon_threadsafe(self._under_way.give_back)

    def close(self, timeout: float) -> None:
        """Wait for the answers under way, give back those that take longer than `timeout` seconds, store everything.

        May be called twice.
        """
        if not self._thread.is_alive():
            return  # closed before
        self.stop_starting()
        give_up_at = time.monotonic() + timeout
        with self._room:
            self._room.notify_all()
            self._room.wait_for(lambda: not self._held, timeout)
        # In the order in which jobs go through them: claimer, loop, writer. What is left behind is sweep's to find.
        wait([self._claimer.submit(_close_connection)], max(1.0, give_up_at - time.monotonic()))
        self._claimer.shutdown(wait=False, cancel_futures=True)
        asyncio.run_coroutine_threadsafe(self._close_session(), self._loop).result()
        if not self._writer.close(max(1.0, give_up_at - time.monotonic())):
            log.warning("results_not_stored", held=self._held)
        self._watch.close(1.0)  # after the last answer, which may be a refusal
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _stored(self, count: int) -> None:
        with self._room:
            self._held -= count
            self._room.notify_all()

    async def _open_session(self) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(
            limit=0,
            resolver=GuardedResolver(allowed=self._allowed, timeout_s=settings.WEIR_FETCH_DNS_TIMEOUT),
        )
        return aiohttp.ClientSession(
            connector=connector,
            request_class=PacedRequest,
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

    async def _close_session(self) -> None:
        tasks = list(self._under_way)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._session.close()

    def _start(self, jobs: list[Job], batch: Batch) -> None:
        for job in jobs:
            task = self._loop.create_task(self._fetch(job, batch))
            self._under_way.add(task, job, batch)
            task.add_done_callback(self._ended)
        if self._stopping:
            self._under_way.give_back()

    def _heard(self, recalls: list[Recall], asked_at: float) -> None:
        self._loop.call_soon_threadsafe(self._apply, recalls, asked_at)

    def _apply(self, recalls: list[Recall], asked_at: float) -> None:
        """Do what the recalls say, and only then rely on having asked."""
        if self._stopping:
            return  # nothing is started any more
        for held in self._under_way.apply(recalls):
            self._claimer.submit(self._take_over, held.job, slot_is_free=not held.has_slot)
        self._confirmation.asked_at = asked_at

    def _take_over(self, job: Job, *, slot_is_free: bool) -> None:
        """Begin the job that has the place of this one, which was cancelled, unless the slot was used already."""
        if (found := _reconnecting(take_over, job)) is None:
            return
        successor, since = found
        self._stored(-1)
        if not slot_is_free:
            self._writer.put(GivenBack(job=successor, slot_used=True))
            return
        jobs, events = robots_gate.sort([successor], self._robots_files)
        if jobs:
            self._loop.call_soon_threadsafe(self._succeed, successor, since)
        else:
            self._writer.put(events[0])

    def _succeed(self, job: Job, since: datetime) -> None:
        self._under_way.succeeds(job, since)
        self._start([job], Batch([job]))

    def _ended(self, task: asyncio.Task[Event]) -> None:
        """Give the writer what a job came to, whatever happened: a claimed fetch is never dropped here."""
        held = self._under_way.pop(task)
        job, was_written = held.job, not held.waits
        held.batch.settle(job)
        if not held.has_slot:
            self._stored(1)  # there is nothing to store: it was cancelled, and its slot is another's
        elif task.cancelled():
            self._writer.put(GivenBack(job=job, slot_used=was_written))
        elif error := task.exception():
            log.error("fetch_failed_unexpectedly", fetch=job.fetch_id, exc_info=error)
            reason = f"unexpected: {type(error).__name__}: {error}"
            self._writer.put(Trouble(job=job, error=reason, slot_used=was_written))
        else:
            self._writer.put(task.result())

    async def _fetch(self, job: Job, batch: Batch) -> Event:
        await asyncio.sleep(job.start_at - OPEN_AHEAD - time.monotonic())
        if job.turns is None:
            return await self._attempts(job, batch)
        try:
            async with asyncio.timeout(job.run.start_until - time.monotonic()):
                await job.turns.acquire()
        except TimeoutError:
            return GivenBack(job=job)
        try:
            return await self._attempts(job, batch)
        finally:
            job.turns.release()

    async def _attempts(self, job: Job, batch: Batch) -> Event:
        if job.run.is_over(time.monotonic()):  # the message was late, or the loop is
            return GivenBack(job=job)
        url = URL(job.url, encoded=True)
        for _ in range(1 + REOPENINGS):
            attempt = Attempt(job, batch, self._allowed, self._unanswered)
            try:
                async with attempt.deadline:
                    return await self._exchange(attempt, url)
            except ConnectionClosedEarly:
                continue
            except (NotLookedUp, RunOver):
                if attempt.started_at is None:
                    return GivenBack(job=job)
                return attempt.trouble(NO_ANSWER)
            except (BodyTooLarge, ConnectionTooSlow, aiohttp.ClientError, OSError, ValueError) as error:
                return attempt.trouble(*_what_happened(error, written=attempt.started_at is not None))
            finally:
                attempt.end()
        return Trouble(job=job, error="the site closes connections before a request can be sent")

    async def _exchange(self, attempt: Attempt, url: URL) -> Answer:
        if (literal := _as_address(url.raw_host)) is not None:
            check_address(literal, self._allowed)  # aiohttp asks no resolver about these
        token = current_attempt.set(attempt)
        try:
            async with self._session.get(url, headers=_conditions(attempt.job), allow_redirects=False) as response:
                if response.status in REFUSING:
                    self._refused(attempt.job, response)
                body = await (_beginning(response, MAX_RAW_BYTES) if attempt.job.is_robots else _read(response))
                return attempt.answer(response, body)
        finally:
            current_attempt.reset(token)  # or it is a cycle: context, attempt, deadline, task, context

    def _refused(self, job: Job, response: aiohttp.ClientResponse) -> None:
        """Ask nothing more of this site from here, and have all others told."""
        self._under_way.give_back(lambda waiting: waiting.site_id == job.site_id)
        retry_after, date = response.headers.get("Retry-After", ""), response.headers.get("Date", "")
        self._watch.refuse(refusal(site=job.site, slot_id=job.slot_id, retry_after=retry_after, date=date))


def _close_connection() -> None:
    """Close the connection of the thread that runs this."""
    connection.close()


def _reconnecting(do: Callable[..., Result], *arguments: object) -> Result:
    """Do it, a second time where the connection was lost since the last time: a new one may work."""
    try:
        return do(*arguments)
    except (OperationalError, InterfaceError):
        connection.close()
        return do(*arguments)


def _conditions(job: Job) -> dict[str, str]:
    """Return the headers that ask for the body only if it has changed."""
    if job.validators is None:
        return {}
    conditions = {"If-None-Match": job.validators.etag, "If-Modified-Since": job.validators.last_modified}
    return {name: value for name, value in conditions.items() if value}


def _what_happened(error: Exception, *, written: bool) -> tuple[str, bool]:
    """Return the words for what ended an attempt, and whether another attempt would end the same."""
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        error = error.os_error
    if isinstance(error, (AddressRefused, BodyTooLarge)):
        return str(error), True
    if isinstance(error, ConnectionTooSlow):
        return str(error), False
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return NO_ANSWER, False
    if isinstance(error, TimeoutError) and written:
        return f"no complete answer within {settings.WEIR_FETCH_TIMEOUT:g} s", False
    if isinstance(error, TimeoutError):
        return f"no connection within {settings.WEIR_FETCH_CONNECT_TIMEOUT:g} s", False
    return f"{type(error).__name__}: {error}", False


async def _read(response: aiohttp.ClientResponse) -> bytes:
    most = settings.WEIR_FETCH_MAX_BODY
    body = await _beginning(response, most)
    if len(body) > most:
        raise BodyTooLarge(f"the body is larger than {most} bytes (WEIR_FETCH_MAX_BODY)")
    return body


async def _beginning(response: aiohttp.ClientResponse, most: int) -> bytes:
    """Return the body; of one that is longer than `most` bytes, a beginning that is longer, too."""
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


_lock = threading.Lock()
_fetcher: Fetcher | None = None


def fetcher() -> Fetcher:
    """Return this process' fetcher; the first call starts it (after any fork)."""
    global _fetcher  # noqa: PLW0603  one a process is the point
    with _lock:
        if _fetcher is None:
            _fetcher = Fetcher()
        return _fetcher


def running_fetcher() -> Fetcher | None:
    """Return this process' fetcher if it has one."""
    return _fetcher
