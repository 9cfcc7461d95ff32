"""The fetcher: one in each process that fetches, with an event loop, three threads beside it, and room for fetches.

The way of one message:
1. `run_batch` waits for room. Then the claimer (a thread) claims the fetches of the message's slots (claim.py), but not
   those that robots.txt does not allow (robots/gate.py).
2. The loop requests each fetch in its slot (http/session.py). If an answer refuses more requests, or says that a quota
   is used up (refusals/asked.py), or if a site cannot be reached, all jobs that wait for slots of the same site end: in
   this fetcher immediately, in other fetchers through a recall.
3. The event in which each attempt ends goes to the writer (a thread, results/writer.py), which judges and stores it.

Meanwhile the recall watcher (a thread, recall_watcher.py) asks which slots were recalled or passed on:
4. Fetches that wait for recalled slots end, and go back to the queue.
5. If the fetch of a slot was cancelled, the claimer looks up its successor, which continues with 2.

Nothing in the loop's thread blocks, and computations there have a bound (docs/explanation/wire.md).
"""

import asyncio
import gc
import sys
import threading
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial

from weir.conf import settings
from weir.logs.loggers import get_logger
from weir.ratelimit import clock
from weir.ratelimit.pacing import NEVER, Confirmation
from weir.ratelimit.slot_rows import Recall
from weir.workers.fetches.access_tokens import gate as access_tokens_gate
from weir.workers.fetches.addresses import allowed_by_settings
from weir.workers.fetches.fetcher import successors
from weir.workers.fetches.fetcher.claim import Claimer, claim, reconnecting
from weir.workers.fetches.fetcher.http import descriptors
from weir.workers.fetches.fetcher.http.session import Session
from weir.workers.fetches.fetcher.in_flight import BatchInFlight, HeldJob, InFlight, Stage
from weir.workers.fetches.fetcher.parts import LOOP_PATIENCE_S, TURN_S, FetcherPart, Watchdog, end_process, take_turn
from weir.workers.fetches.fetcher.recall_watcher import RecallWatcher
from weir.workers.fetches.fetcher.refusals.asked import Headers, asks_to_rest
from weir.workers.fetches.fetcher.refusals.rests import SiteRest, ToldQuotas, rest_of
from weir.workers.fetches.fetcher.request_bodies import RequestBodies
from weir.workers.fetches.fetcher.results.writer import Writer
from weir.workers.fetches.fetcher.successors import PassedOn
from weir.workers.fetches.jobs import Event, Failure, HeldBytes, Job, Snoozed
from weir.workers.fetches.once import gate as once_gate
from weir.workers.fetches.robots import gate as robots_gate
from weir.workers.fetches.robots.files import RobotsFiles
from weir.workers.fetches.robots.user_agent import has_contact
from weir.workers.processes import presence
from weir.workers.tracing import spans

try:
    import uvloop
except ModuleNotFoundError:  # the extra uvloop is not installed: asyncio's own loop takes more processor time
    uvloop = None  # type: ignore[assignment]

log = get_logger(__name__)


class Fetcher:
    """The loop, its HTTP session, the claimer, the writer and the recall watcher. A process has at most one."""

    def __init__(self) -> None:
        sys.setswitchinterval(0.0005)  # other threads of the process delay the loop by half a millisecond at most
        gc.collect()  # it stops the loop, at Python's threshold for a third of the time; a fetch leaves no cycles
        gc.freeze()
        gc.set_threshold(50_000, 10, 100)
        descriptors.raise_limit()
        if not has_contact(settings.WEIR_FETCH_USER_AGENT):
            log.warning("user_agent_without_contact", user_agent=settings.WEIR_FETCH_USER_AGENT)
        self._writer = Writer(self._stored)
        self._claimer = Claimer()
        self._room = threading.Condition()
        self._held = 0
        self._stopping = False
        self._robots_files = RobotsFiles()
        self._bodies = RequestBodies()
        self._in_flight = InFlight()
        self._confirmation = Confirmation(asked_at=NEVER)
        self._loop = (uvloop or asyncio).new_event_loop()
        self._loop_part = FetcherPart("loop", self._run_loop, patience_s=LOOP_PATIENCE_S)
        self._session = asyncio.run_coroutine_threadsafe(self._open_session(), self._loop).result()
        self._told_quotas = ToldQuotas(settings.WEIR_RETRY_AFTER_MAX)
        self._recall_watcher = RecallWatcher(self._pass_to_loop, self._note_turn)
        parts = self._loop_part, self._claimer.part, self._writer.part, self._recall_watcher.part
        self._watchdog = Watchdog(*parts, each_look=self._session.look_at_descriptors)

    def run_batch(self, slot_ids: list[int]) -> None:
        """Claim the fetches of one message's slots, and return when none of them waits for its slot any more.

        Blocks while the process holds WEIR_FETCH_MAX_IN_FLIGHT fetches, or as many as its descriptors allow, or has run
        out of descriptors or memory, or has no network. Answers may be read and stored after the return.
        """
        with self._room:
            most = max(descriptors.most_in_flight(), len(slot_ids))
            while not self._stopping and (self._held + len(slot_ids) > most or self._session.is_paused()):
                self._room.wait(timeout=1)  # stop_starting runs in a signal handler and cannot notify
            if self._stopping:
                return  # sweep takes these fetches back
            self._held += len(slot_ids)
        jobs: list[Job] = []
        turned_away: list[Event] = []
        try:
            jobs, turned_away = self._claimer.submit(self._claim, slot_ids).result()
        finally:
            self._free_room(len(slot_ids) - len(jobs) - len(turned_away))
        for event in turned_away:
            self._writer.put(event)
        if jobs:
            batch = BatchInFlight(jobs)
            self._on_loop(self._start, jobs, batch)
            batch.wait()

    def _claim(self, slot_ids: list[int]) -> tuple[list[Job], list[Event]]:
        with spans.span("claim", {"weir.slots": len(slot_ids)}) as span:
            jobs = reconnecting(claim, slot_ids, self._confirmation)
            span.set_attributes({"weir.fetches": len(jobs)})
            return self._admit(jobs)

    def _admit(self, jobs: list[Job]) -> tuple[list[Job], list[Event]]:
        """Return the jobs that may be requested, with what they need, and the events of the others."""
        allowed, turned_away = robots_gate.admit(jobs, self._robots_files)
        with_tokens, without = access_tokens_gate.admit(allowed)
        with_effects, ended = once_gate.admit(with_tokens)
        admitted, waiting = self._bodies.admit(with_effects)
        return admitted, [*turned_away, *without, *ended, *waiting]

    def stop_starting(self) -> None:
        """Give back the fetches whose requests have not been written. For a signal handler: returns immediately."""
        self._stopping = True
        self._on_loop(self._in_flight.give_back)

    def close(self, timeout: float) -> None:
        """Wait for the answers in flight, give back fetches that take longer than `timeout` seconds, store the rest.

        Fetches whose answers the writer has not read a second later are given back, too. May be called twice.
        """
        if not self._loop_part.is_alive():
            return  # the fetcher was closed before
        self.stop_starting()
        give_up_at = time.monotonic() + timeout
        with self._room:
            self._room.notify_all()
            self._room.wait_for(lambda: not self._held, timeout)
        # The parts end in the order in which jobs pass through them. Sweep takes back fetches that are left behind.
        self._claimer.close(max(1.0, give_up_at - time.monotonic()))
        asyncio.run_coroutine_threadsafe(self._close_session(), self._loop).result()
        if not self._writer.close(max(1.0, give_up_at - time.monotonic())):
            log.warning("results_not_stored", held=self._held)
        self._recall_watcher.close(1.0)  # after the last answer, which may be a refusal
        self._watchdog.close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._loop_part.join(timeout)

    def _stored(self, events: int, all_held: list[HeldBytes]) -> None:
        self._free_room(events)
        if all_held:
            self._on_loop(self._session.free, all_held)

    def _free_room(self, places: int) -> None:
        with self._room:
            self._held -= places
            self._room.notify_all()

    def _run_loop(self) -> None:
        self._turn()
        self._loop.run_forever()

    def _turn(self) -> None:
        take_turn()
        if known := presence.of_this_process():
            known.show_life()
        self._loop.call_later(TURN_S, self._turn)

    def _note_turn(self) -> None:
        """Tell PostgreSQL when the loop last turned. For the recall watcher: the loop never waits for PostgreSQL."""
        if known := presence.of_this_process():
            known.is_handed_over = True  # the worker's own loop only brings messages
            known.heartbeat(holds=self._held, ago_s=max(0.0, time.monotonic() - self._loop_part.turned_at))

    def _on_loop(self, do: Callable[..., None], *arguments: object) -> None:
        """Let the loop call `do`. An error in it ends the process, because the loop would only log it."""
        self._loop.call_soon_threadsafe(_surely, do, *arguments)

    async def _open_session(self) -> Session:
        return Session(allowed_by_settings(), self._answered, self._unreachable, self._started_out_of_time)

    async def _close_session(self) -> None:
        tasks = list(self._in_flight)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._session.close()

    def _start(self, jobs: list[Job], batch: BatchInFlight) -> None:
        for job in jobs:
            held = HeldJob(job=job, batch=batch)
            task = self._loop.create_task(self._session.fetch(held))
            self._in_flight.add(task, held)
            task.add_done_callback(partial(_surely, self._ended))
        if self._stopping:
            self._in_flight.give_back()

    def _pass_to_loop(self, recalls: list[Recall], asked_at: float) -> None:
        self._on_loop(self._apply, recalls, asked_at)

    def _apply(self, recalls: list[Recall], asked_at: float) -> None:
        """End jobs whose slots were recalled, and look up successors; only then is the answer a confirmation."""
        if self._stopping:
            return  # nothing is started any more
        passed_on = [PassedOn(held.job, held.stage is Stage.PASSED_ON) for held in self._in_flight.apply(recalls)]
        for first in range(0, len(passed_on), successors.MOST):
            self._claimer.leave(self._begin_successors, passed_on[first : first + successors.MOST])
        self._confirmation.asked_at = asked_at

    def _begin_successors(self, passed_on: Sequence[PassedOn]) -> None:
        found = successors.look_up(passed_on, self._admit)
        self._free_room(-found.places)
        for event in found.events:
            self._writer.put(event)
        if found.start:
            self._on_loop(self._start_successors, found.start)

    def _start_successors(self, taken_over: Sequence[tuple[Job, datetime]]) -> None:
        for job, since in taken_over:
            self._in_flight.note_taken_over(job, since)
        jobs = [job for job, _ in taken_over]
        self._start(jobs, BatchInFlight(jobs))

    def _ended(self, task: asyncio.Task[Event]) -> None:
        """Give the writer the event in which a job ended, however it ended: a claimed fetch is never dropped here."""
        held = self._in_flight.pop(task)
        job, stage = held.job, held.stage
        self._bodies.free(job)
        was_written = stage is Stage.WRITTEN
        held.move(Stage.ENDED)
        if stage is Stage.PASSED_ON:
            self._free_room(1)
        elif task.cancelled():
            self._writer.put(Snoozed(job=job, slot_used=was_written))
        elif error := task.exception():
            log.error("fetch_failed_unexpectedly", **job.named, exc_info=error)
            reason = f"unexpected: {type(error).__name__}: {error}"
            self._writer.put(Failure(job=job, error=reason, slot_used=was_written))
        else:
            self._writer.put(task.result())

    def _answered(self, job: Job, status: int, headers: Headers) -> None:
        """Leave the site alone if its answer asks for that. Called for each answer whose head has come."""
        asked = asks_to_rest(status, headers, job.refusing)
        if asked is None:
            return
        if asked.is_refusal or self._told_quotas.is_news(job.site_id, asked, now=clock.now(), time_s=time.time()):
            self._leave_alone(job, rest_of(job.site, job.slot_id, asked))

    def _unreachable(self, job: Job, error: str) -> None:
        self._leave_alone(job, SiteRest(site=job.site, slot_id=job.slot_id, error=error))

    def _started_out_of_time(self, job: Job, late_by_s: float) -> None:
        """Let nothing start shortly after this job's request, which was written `late_by_s` seconds out of its time.

        The job's own run keeps the interval by itself. Jobs that wait in other runs of the site go back to the queue:
        in this fetcher immediately, in other fetchers through a recall. To be called directly after the write, on the
        loop.
        """
        self._in_flight.give_back_at(job.site_id, lambda waiting: waiting.run is not job.run)
        self._recall_watcher.out_of_time.add(job, late_by_s)

    def _leave_alone(self, job: Job, rest: SiteRest) -> None:
        """End the jobs that wait at this job's site, and store `rest`, which recalls the slots in other fetchers."""
        self._in_flight.give_back_at(job.site_id, lambda waiting: waiting is not job)
        self._recall_watcher.rest(rest)


def _surely(do: Callable[..., None], *arguments: object) -> None:
    """Call `do` on the loop's thread; an error in it ends the process."""
    try:
        do(*arguments)
    except Exception as error:  # noqa: BLE001  after any error, jobs would be held for good
        end_process("loop", "it failed", error)


_lock = threading.Lock()
_fetcher: Fetcher | None = None


def fetcher() -> Fetcher:
    """Return this process' fetcher; the first call starts it (after any fork)."""
    global _fetcher  # noqa: PLW0603  the purpose is to have one in each process
    with _lock:
        if _fetcher is None:
            _fetcher = Fetcher()
        return _fetcher


def running_fetcher() -> Fetcher | None:
    """Return this process' fetcher if it has one."""
    return _fetcher
