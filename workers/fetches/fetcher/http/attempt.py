"""One attempt at a request: it waits for its slot with an open connection, writes, and only then records the start.

1. It checks the address to which the connection really leads, and records how long the connection took to open.
2. It waits for the slot, and until its run, the memory and the room for unanswered requests let it start. DNS, TCP, TLS
   and the bytes of the request are done before, but for its signature, if it is to be signed. If the request is made
   once, another thread commits, just before the slot, that it begins (fetcher/begins.py).
3. It looks at the connection, and then at the clock and the run once more.
4. It writes the request, with one system call.
5. It reads the clock and records the start, so the recorded start is never earlier than the real one.

Between 3 and 4 lies half a microsecond, unless the kernel takes the processor away just there. If the start was out of
its time for that reason, step 5 shows it, and it is reported (`AttemptContext.started_out_of_time`).
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from weir.conf import settings
from weir.ratelimit import clock
from weir.workers.fetches.addresses import Allowed
from weir.workers.fetches.fetcher.begins import Begins
from weir.workers.fetches.fetcher.http.faults import ConnectionTooSlow, NoRoomInTime, Respect, SocketAddress
from weir.workers.fetches.fetcher.http.heads import Request
from weir.workers.fetches.fetcher.http.masking import Headers, Secrets, masked, masked_text
from weir.workers.fetches.fetcher.http.openings import OPEN_AHEAD, Openings
from weir.workers.fetches.fetcher.http.reachability import Reachability
from weir.workers.fetches.fetcher.http.unanswered import Unanswered
from weir.workers.fetches.fetcher.in_flight import HeldJob, Stage
from weir.workers.fetches.fetcher.room.memory import AnswerMemory, Memory
from weir.workers.fetches.fetcher.room.spilling import Disk, Spilling
from weir.workers.fetches.fetcher.wire.answers import AnswerReader
from weir.workers.fetches.fetcher.wire.connection import HttpConnection
from weir.workers.fetches.jobs import Answer, Failure, Flaw, Job, Snoozed, longest_answer_s
from weir.workers.fetches.targets import parts_of

SHORTEST_SLEEP = 0.001  # seconds
RECHECK_EVERY = 0.01  # seconds between two checks of a request whose slot has come, but which may not start yet
BUSY = 0.02  # seconds: a loop that takes longer for one turn is busy
MISSED_AFTER = 0.005  # seconds after the end of its run at which a job without a connection counts as missed


class RunOver(Exception):
    """The request can no longer be written in its run."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AttemptContext:
    """What all attempts of one fetcher share."""

    allowed: Allowed
    started_out_of_time: Callable[[Job, float], None] = lambda _job, _late_by_s: None
    unanswered: Unanswered = field(default_factory=Unanswered)
    openings: Openings = field(default_factory=Openings)
    reachability: Reachability = field(default_factory=Reachability)
    memory: Memory = field(default_factory=Memory)
    disk: Disk = field(default_factory=Disk)
    begins: Begins = field(default_factory=Begins)


class Attempt:
    """One try to request a job's URL, over one connection. On the loop's thread only."""

    def __init__(self, held: HeldJob, shared: AttemptContext) -> None:
        self.job = held.job
        self.started_at: float | None = None
        self.is_reused = False  # the connection has carried a request before: the site may be closing it just now
        self.tried: set[SocketAddress] = set()  # the addresses to which a connection was begun
        self.secrets: Secrets = {}  # the secrets and tokens in its request
        self.pool_key = ("", "")  # of its connection (wire/pool.py)
        self.memory = AnswerMemory(shared.memory, self.job.site_id)
        self._spilling = Spilling(shared.disk, self.job)
        self._connection: HttpConnection | None = None
        self._address = ""
        self._left_s = settings.WEIR_FETCH_TIMEOUT
        self._deadline: asyncio.TimerHandle | None = None  # the time-out of the answer
        self._giving_up: asyncio.TimerHandle | None = None  # the end of the time for an answer that waited for memory
        self._held = held
        self._shared = shared
        self._site_is_slow = shared.openings.are_known_slow(self.job.site_id)
        self._began_at = clock.now()
        self._opened_s = 0.0
        over_in_s = max(0.0, self.job.run.start_until - self._began_at) + MISSED_AFTER
        self._missing = asyncio.get_running_loop().call_later(over_in_s, held.miss)

    def note_connection(self, connection: HttpConnection) -> None:
        """Take the connection that was opened, or taken from the pool.

        Raises AddressRefused if the address to which it really leads is forbidden.
        """
        self._missing.cancel()
        self._connection, self._address = connection, connection.peer
        if connection.by_proxy:
            self._address = f"{connection.peer} {parts_of(self.job.url).host}"  # a proxy may have the requests of many
        else:
            self._shared.allowed.check(connection.peer, connection.port)
        self.is_reused = connection.has_carried
        self._opened_s = clock.now() - self._began_at
        if not self.is_reused:
            self._shared.openings.note(self.job.site_id, self._opened_s)
            self._shared.reachability.reached(Respect.CONNECTION)
        self._shared.reachability.connected(self.job.site_id)

    async def write_in_turn(self, connection: HttpConnection, request: Request, reader: AnswerReader) -> None:
        """Write the request as soon as it may be written; `reader` then reads its answer.

        Raises RunOver if that time can no longer come, ConnectionClosedEarly if the connection is closed before,
        NotBegun if the effect of the request may not begin, and ConnectionTooSlow if the connection was opened too late
        through the site's fault. It is the site's fault if the site was known to be slow, so that the attempt began
        early, and if the loop is not busy.
        """
        run, start_at = self.job.run, self.job.start_at
        has_waited = False
        while not run.is_over(now := clock.now()):
            ahead_s = self._begins_ahead_s()
            wait_s = run.ready_at(start_at) - ahead_s - now
            if wait_s <= 0 and ahead_s and run.may_start(now) and self._has_room():
                await self._shared.begins.begin(self.job, self._held.miss)
                continue
            if wait_s <= 0 and not ahead_s and run.may_start(now) and self._has_room():
                prepared = connection.prepare(request.ready())
                if run.may_start(clock.now()):
                    connection.send(prepared, reader, self)
                    self._note_start(clock.now())
                    return
                connection.close()  # the run has ended just now
                break
            if wait_s <= 0:  # no confirmation, or no room for the site: many requests may wait for that, for long
                wait_s = RECHECK_EVERY
            # uvloop's timers count whole milliseconds and fire up to one early: a shorter sleep would be a busy loop.
            await connection.sleep(max(wait_s, SHORTEST_SLEEP))
            has_waited = True
        if has_waited or self._opened_s < OPEN_AHEAD or not self._site_is_slow or await _loop_is_busy():
            raise RunOver
        raise ConnectionTooSlow(f"the connection took {self._opened_s:.1f} s to open, longer than its slot could wait")

    def _begins_ahead_s(self) -> float:
        """Return how long before its slot the effect of the request begins; 0 if it has none, or has begun."""
        held = self.job.effect
        return self._shared.begins.ahead_s() if held is not None and not held.has_begun else 0.0

    def _note_start(self, now: float) -> None:
        """Record the time `now`, at which the request has been written: no start is recorded too early.

        If the start was out of its time, calls `started_out_of_time` with the job and the number of seconds.
        """
        self.started_at = now
        late_by_s = self.job.run.out_of_time_s(now)
        self.job.run.started(now)
        self._shared.unanswered.began(self.job.site_id, self._address)
        self._held.move(Stage.WRITTEN)
        self._go_on_counting()
        if late_by_s:
            self._shared.started_out_of_time(self.job, late_by_s)

    def end(self) -> None:
        """Record that the attempt has ended, which frees its memory, and its place among the unanswered requests."""
        self._missing.cancel()
        self._stop_counting()
        if self._giving_up is not None:
            self._giving_up.cancel()
        self.memory.drop()
        self._spilling.end()
        if self.started_at is not None:
            self._shared.unanswered.ended(self.job.site_id, self._address)

    def may_go_on(self, reader: AnswerReader, go_on: Callable[[], None]) -> bool:
        """Return whether more of the answer may be read now; if not, `go_on` is called when it may.

        Meanwhile the time-out stands still, because the wait is not the site's fault. If the wait is so long that the
        lease would run out, the answer is given up.
        """

        def go_on_in_time() -> None:
            self._go_on_counting()
            go_on()

        def go_on_spilled() -> None:
            self.memory.shrink(reader.held())
            go_on_in_time()

        is_spilled = self._spilling.is_due(reader) and self._connection is not None
        if is_spilled and self._connection:
            self._spilling.spill(reader, go_on_spilled, self._connection.fail)
        may_go_on = not is_spilled and self.memory.may_go_on(reader, go_on_in_time)
        if not may_go_on:
            self._stop_counting()
            self._give_up_in_time()
        return may_go_on

    def headers_of(self, reader: AnswerReader) -> Headers:
        """Return the headers of the answer, without the secrets of the request."""
        return masked(reader.headers, self.secrets)

    def as_answer(self, reader: AnswerReader, flaw: Flaw, reason: str = "") -> Answer:
        """Return the event of an answer whose head came, with its times, and what is wrong with its body."""
        lateness_ms, elapsed_ms = self._times_ms()
        spilled, spilled_bytes = self._spilling.keep()
        return Answer(
            job=self.job,
            status_code=reader.status_code,
            headers=self.headers_of(reader),
            body=bytes(reader.body),
            flaw=flaw,
            reason=masked_text(reason, self.secrets),
            held=self.memory.keep(reader.held()),
            spilled=spilled,
            spilled_bytes=spilled_bytes,
            lateness_ms=lateness_ms or 0.0,
            elapsed_ms=elapsed_ms or 0.0,
        )

    def as_failure(self, error: str, permanent: bool = False) -> Failure:
        """Return the event of a failure, with its times if a request was written."""
        lateness_ms, elapsed_ms = self._times_ms()
        return Failure(
            job=self.job,
            error=masked_text(error, self.secrets),
            permanent=permanent,
            lateness_ms=lateness_ms,
            elapsed_ms=elapsed_ms,
        )

    def as_spared(self) -> Snoozed:
        """Return the event of a request that was written and is spared an attempt: the site closed the connection."""
        lateness_ms, _ = self._times_ms()
        return Snoozed(job=self.job, slot_used=True, lateness_ms=lateness_ms)

    def _has_room(self) -> bool:
        return self._shared.memory.has_room_for(self.job.site_id) and self._shared.unanswered.has_room_for(
            self.job.site_id, self._address
        )

    def _go_on_counting(self) -> None:
        """Start the time-out of the answer, or let it run on."""
        loop = asyncio.get_running_loop()
        self._deadline = (
            loop.call_later(self._left_s, self._connection.fail, TimeoutError()) if self._connection else None
        )

    def _stop_counting(self) -> None:
        """Stop the time-out: the answer has ended, or waits for memory, which is not the site's fault."""
        if self._deadline is not None:
            self._left_s = max(0.0, self._deadline.when() - asyncio.get_running_loop().time())
            self._deadline.cancel()
            self._deadline = None

    def _give_up_in_time(self) -> None:
        """Make sure that the answer ends while its lease still leaves time for storing."""
        if self._giving_up is None and self._connection:
            left_s = self.job.run.start_until + longest_answer_s() - clock.now()
            error = NoRoomInTime("no complete answer within its lease: others had all memory (WEIR_FETCH_MAX_MEMORY)")
            self._giving_up = asyncio.get_running_loop().call_later(max(0.0, left_s), self._connection.fail, error)

    def _times_ms(self) -> tuple[float | None, float | None]:
        if self.started_at is None:
            return None, None
        return (self.started_at - self.job.start_at) * 1000, (clock.now() - self.started_at) * 1000


async def _loop_is_busy() -> bool:
    """Return whether the loop is so busy that a late connection may be the fetcher's own fault."""
    asked_at = clock.now()
    await asyncio.sleep(0)
    return clock.now() - asked_at > BUSY
