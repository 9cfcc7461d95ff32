"""One paced request: it waits for its moment with the connection in hand, writes, and only then notes the start.

aiohttp asks a request to send itself when it has a connection for it, new or from the pool. That is where a
`PacedRequest` waits, so that DNS, TCP and TLS lie before the slot and nothing but the write lies in it.
"""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Iterable
from contextvars import ContextVar

import aiohttp
from aiohttp.connector import Connection
from django.conf import settings

from workers.fetches.address_guard import Network, check_address
from workers.fetches.claim import Job
from workers.fetches.outcomes import Answer, Trouble

SHORTEST_SLEEP = 0.001  # seconds
OPEN_AHEAD = 0.5  # seconds before its slot a request looks for its connection
# Of the fetches that a process may hold: how many may be unanswered, and how many of these by way of the sites' shares.
# The rest of them is left to first requests; the rest of all, to fetches that wait for their slots.
UNANSWERED = 0.6
SHARED = 0.4
ONE_SITE = 0.2  # the part of what other sites leave of the shared room that one site may have
LOOK_AGAIN = 0.01  # seconds until a request whose slot has come looks again whether it may start
BUSY = 0.02  # seconds of one turn of the loop


class RunOver(Exception):
    """The request can no longer be written in its run."""


class ConnectionTooSlow(Exception):
    """The connection took longer to open than its slot could wait."""


class ConnectionClosedEarly(Exception):
    """The site closed the connection before the request was written: nothing was sent, another may be opened."""


class Batch:
    """The jobs of one message; its thread waits until each has been started or given up."""

    def __init__(self, jobs: Iterable[Job]) -> None:
        self._unsettled = {job.fetch_id for job in jobs}
        self._settled = threading.Event()

    def settle(self, job: Job) -> None:
        """Note that this job no longer waits for its slot. May be called twice."""
        self._unsettled.discard(job.fetch_id)
        if not self._unsettled:
            self._settled.set()

    def waits_for(self, job: Job) -> bool:
        """Tell whether the job still waits for its slot."""
        return job.fetch_id in self._unsettled

    def wait(self) -> None:
        """Block until no job waits for its slot."""
        self._settled.wait()


class Unanswered:
    """The requests of a process that wait for their answers, by site: WEIR_FETCH_MAX_IN_FLIGHT is the number below.

    A site may have a fifth of what all others leave over of two fifths of it, and its first request as long as the sum
    is below three fifths. So the next site has room while those that hang are fewer than a fifth of it.
    """

    def __init__(self) -> None:
        self._by_site: Counter[int] = Counter()
        self._all = 0

    def has_room_for(self, site_id: int) -> bool:
        """Tell whether the site may have one more now."""
        most, own = settings.WEIR_FETCH_MAX_IN_FLIGHT, self._by_site[site_id]
        if own:
            return own < ONE_SITE * (SHARED * most - (self._all - own))
        return self._all < UNANSWERED * most

    def began(self, site_id: int) -> None:
        """Note that a request was written."""
        self._by_site[site_id] += 1
        self._all += 1

    def ended(self, site_id: int) -> None:
        """Note that a request was answered, or given up."""
        self._all -= 1
        self._by_site[site_id] -= 1
        if not self._by_site[site_id]:
            del self._by_site[site_id]


class Attempt:
    """One job under way, on the loop's thread."""

    def __init__(self, job: Job, batch: Batch, allowed: tuple[Network, ...], unanswered: Unanswered) -> None:
        self.job = job
        self.deadline = asyncio.timeout(None)  # begins when the request is written
        self.started_at: float | None = None
        self._began_at = time.monotonic()
        self._batch = batch
        self._allowed = allowed
        self._unanswered = unanswered

    def check_peer(self, peer: tuple[str, int]) -> None:
        """Raise AddressRefused unless the address that was really connected to may be fetched from."""
        check_address(peer[0], self._allowed)

    async def wait_for_turn(self) -> None:
        """Return at the moment at which the request may be written; raises RunOver when there is none left."""
        run, start_at = self.job.run, self.job.start_at
        if self.started_at is not None:
            raise RunOver  # a second request (aiohttp's own retry) would need a slot of its own
        connected_s, has_waited = time.monotonic() - self._began_at, False
        while not run.is_over(now := time.monotonic()):
            wait_s = run.ready_at(start_at) - now
            if wait_s <= 0 and run.may_start(now) and self._unanswered.has_room_for(self.job.site_id):
                return
            if wait_s <= 0:  # not confirmed, or no room for the site: many may wait so, and for long
                wait_s = LOOK_AGAIN
            # uvloop's timers count whole milliseconds and fire up to one early: below that, looping would only burn.
            await asyncio.sleep(max(wait_s, SHORTEST_SLEEP))
            has_waited = True
        if has_waited or connected_s < OPEN_AHEAD or await _loop_is_busy():
            raise RunOver
        raise ConnectionTooSlow(f"the connection took {connected_s:.1f} s to open, longer than its slot could wait")

    def note_start(self) -> None:
        """Note that the request has been written: read after it, so that the next one never comes too close."""
        self.started_at = time.monotonic()
        self.job.run.started(self.started_at)
        self.deadline.reschedule(asyncio.get_running_loop().time() + settings.WEIR_FETCH_TIMEOUT)
        self._unanswered.began(self.job.site_id)
        self._batch.settle(self.job)

    def end(self) -> None:
        """Note that nothing is under way any more."""
        if self.started_at is not None:
            self._unanswered.ended(self.job.site_id)

    def answer(self, response: aiohttp.ClientResponse, body: bytes) -> Answer:
        """Return what came, with its times."""
        lateness_ms, elapsed_ms = self._times_ms()
        return Answer(
            job=self.job,
            status_code=response.status,
            headers=response.raw_headers,
            body=body,
            lateness_ms=lateness_ms or 0.0,
            elapsed_ms=elapsed_ms or 0.0,
        )

    def trouble(self, error: str, permanent: bool = False) -> Trouble:
        """Return what went wrong, with the times as far as it got."""
        lateness_ms, elapsed_ms = self._times_ms()
        return Trouble(job=self.job, error=error, permanent=permanent, lateness_ms=lateness_ms, elapsed_ms=elapsed_ms)

    def _times_ms(self) -> tuple[float | None, float | None]:
        if self.started_at is None:
            return None, None
        return (self.started_at - self.job.start_at) * 1000, (time.monotonic() - self.started_at) * 1000


async def _loop_is_busy() -> bool:
    """Tell whether other fetches keep the loop so long that what is late may be late because of us."""
    asked_at = time.monotonic()
    await asyncio.sleep(0)
    return time.monotonic() - asked_at > BUSY


current_attempt: ContextVar[Attempt] = ContextVar("attempt")


class PacedRequest(aiohttp.ClientRequest):
    """A request that waits for its turn with its connection open."""

    async def send(self, conn: Connection) -> aiohttp.ClientResponse:
        """Write the request in its slot."""
        attempt = current_attempt.get()
        try:
            if conn.transport is not None:
                attempt.check_peer(conn.transport.get_extra_info("peername"))
            await attempt.wait_for_turn()
        except BaseException:
            conn.release()  # unused and whole: the pool may keep it
            raise
        if conn.protocol is None or not conn.protocol.is_connected():
            raise ConnectionClosedEarly
        try:
            return await super().send(conn)  # writes at once: nothing of it waits
        finally:
            attempt.note_start()
