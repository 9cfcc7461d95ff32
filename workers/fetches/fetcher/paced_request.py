"""One paced request: it waits for its moment with the connection in hand, writes, and only then notes the start.

aiohttp asks a request to send itself when it has a connection for it, new or from the pool. That is where a
`PacedRequest` waits, so that DNS, TCP and TLS lie before the slot and nothing but the write lies in it.
"""

import asyncio
import time
from contextvars import ContextVar

import aiohttp
from aiohttp.connector import Connection
from django.conf import settings

from workers.fetches.fetcher.address_guard import Network, check_address
from workers.fetches.fetcher.in_flight import Batch
from workers.fetches.fetcher.unanswered import Unanswered
from workers.fetches.jobs import Answer, Failure, Job

SHORTEST_SLEEP = 0.001  # seconds
OPEN_AHEAD = 0.5  # seconds before its slot a request looks for its connection
LOOK_AGAIN = 0.01  # seconds until a request whose slot has come looks again whether it may start
BUSY = 0.02  # seconds of one turn of the loop


class RunOver(Exception):
    """The request can no longer be written in its run."""


class ConnectionTooSlow(Exception):
    """The connection took longer to open than its slot could wait."""


class ConnectionClosedEarly(Exception):
    """The site closed the connection before the request was written: nothing was sent, another may be opened."""


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

    def failure(self, error: str, permanent: bool = False) -> Failure:
        """Return what went wrong, with the times as far as it got."""
        lateness_ms, elapsed_ms = self._times_ms()
        return Failure(job=self.job, error=error, permanent=permanent, lateness_ms=lateness_ms, elapsed_ms=elapsed_ms)

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
