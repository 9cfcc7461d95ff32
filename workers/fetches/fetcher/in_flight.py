"""The jobs that a fetcher holds, the stage of each, and what recalls do to them.

On the loop's thread only, except `BatchInFlight.wait`. A recall, a back-off, a stop and a cancel end a job that is
waiting or missed, and leave a written one alone.
"""

import asyncio
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from functools import partial

from weir.ratelimit.models import LONG_AGO
from weir.ratelimit.slot_rows import Recall
from weir.workers.fetches.fetcher.remembered import Remembered
from weir.workers.fetches.jobs import Event, Job

MOST_REMEMBERED = 100_000  # recalls: far more than the recall watcher may hand over a second time (its WINDOW)


class BatchInFlight:
    """The jobs of one message. The message's thread waits until each has been started or given up."""

    def __init__(self, jobs: Iterable[Job]) -> None:
        self._unsettled = {job.fetch_id for job in jobs}
        self._settled = threading.Event()

    def settle(self, job: Job) -> None:
        """Record that this job no longer waits for its slot. May be called twice."""
        self._unsettled.discard(job.fetch_id)
        if not self._unsettled:
            self._settled.set()

    def wait(self) -> None:
        """Block until no job waits for its slot."""
        self._settled.wait()


class Stage(Enum):
    """How far a held job has come."""

    WAITING = "waiting"  # for its time, its connection, or its slot
    MISSED = "missed"  # its run ended while its connection was still opening: the request will not be written
    WRITTEN = "written"  # its request was written; the fetcher waits for the answer, or reads it
    PASSED_ON = "passed on"  # it was cancelled, and a successor may have its slot: nothing is to be stored
    ENDED = "ended"  # the writer has its event


FOLLOWING = {
    Stage.WAITING: frozenset({Stage.MISSED, Stage.WRITTEN, Stage.PASSED_ON, Stage.ENDED}),
    Stage.MISSED: frozenset({Stage.PASSED_ON, Stage.ENDED}),
    Stage.WRITTEN: frozenset({Stage.ENDED}),
    Stage.PASSED_ON: frozenset({Stage.ENDED}),
    Stage.ENDED: frozenset(),
}
UNWRITTEN = frozenset({Stage.WAITING, Stage.MISSED})


@dataclass(eq=False, kw_only=True, slots=True)
class HeldJob:
    """One claimed job, and the batch that waits until it has left Stage.WAITING."""

    job: Job
    batch: BatchInFlight
    stage: Stage = Stage.WAITING

    def move(self, to: Stage) -> None:
        """Move the job to its next stage; raises RuntimeError if that stage does not follow its present one."""
        if to not in FOLLOWING[self.stage]:
            raise RuntimeError(f"fetch {self.job.fetch_id} cannot be {to.value}: it is {self.stage.value}")
        self.stage = to
        self.batch.settle(self.job)

    def miss(self) -> None:
        """Record that the run is over: the message's thread no longer waits for this job, which has no connection."""
        if self.stage is Stage.WAITING:
            self.move(Stage.MISSED)


class InFlight:
    """The loop's tasks of claimed jobs, until the event of each is handed to the writer.

    Ending the jobs of a site looks only at this site's jobs, and ends each of them once. So the cost of 500 sites that
    refuse at the same moment grows only with the number of their jobs.
    """

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[Event], HeldJob] = {}
        self._by_slot: dict[int, asyncio.Task[Event]] = {}
        self._by_site: dict[int, dict[asyncio.Task[Event], HeldJob]] = {}  # the jobs that may still be ended
        # By site: the last slot that is void. By slot: when the slot was passed on.
        self._recalled: Remembered[int, int] = Remembered(MOST_REMEMBERED)
        self._passed_on: Remembered[int, datetime] = Remembered(MOST_REMEMBERED)

    def __iter__(self) -> Iterator[asyncio.Task[Event]]:
        return iter(list(self._tasks))

    def add(self, task: asyncio.Task[Event], held: HeldJob) -> None:
        """Add a job that has begun; ends it if its slot was recalled while it was being claimed."""
        job = held.job
        self._tasks[task] = held
        self._by_slot[job.slot_id] = task
        if job.slot_id <= self._recalled.get(job.site_id, 0):
            task.cancel()
        else:
            self._by_site.setdefault(job.site_id, {})[task] = held

    def note_taken_over(self, job: Job, since: datetime) -> None:
        """Record when this job got its slot from a cancelled one: if a recall tells of that again, it is ignored."""
        self._passed_on.note(job.slot_id, since)

    def pop(self, task: asyncio.Task[Event]) -> HeldJob:
        held = self._tasks.pop(task)
        if self._by_slot.get(held.job.slot_id) is task:
            del self._by_slot[held.job.slot_id]
        of_site = self._by_site.get(held.job.site_id, {})
        if of_site.pop(task, None) and not of_site:
            del self._by_site[held.job.site_id]
        return held

    def give_back(self) -> None:
        """End all jobs whose requests have not been written; they go back to the queue."""
        for site_id in list(self._by_site):
            self.give_back_at(site_id)

    def give_back_at(self, site_id: int, is_void: Callable[[Job], bool] = lambda _: True) -> None:
        """End those jobs of a site whose requests have not been written; they go back to the queue."""
        kept = {}
        for task, held in self._by_site.pop(site_id, {}).items():
            if held.stage not in UNWRITTEN:
                continue  # from now on, the job can no longer be ended
            if is_void(held.job):
                task.cancel()
            else:
                kept[task] = held
        if kept:
            self._by_site[site_id] = kept

    def apply(self, recalls: Iterable[Recall]) -> Iterator[HeldJob]:
        """End the waiting jobs whose slots were recalled or passed on; yields each job whose slot was passed on.

        A job is yielded once for each time that its slot was passed on, even if its request has been written.
        """
        news: dict[int, int] = {}
        for recall in recalls:
            if recall.last_slot is not None and self._recalled.get(recall.site_id, 0) < recall.last_slot:
                news[recall.site_id] = recall.last_slot
            elif recall.passed_on is not None and (held := self._passed(recall.passed_on, recall.at)):
                yield held
        for site_id, last in news.items():
            self._recalled.note(site_id, last)
            self.give_back_at(site_id, partial(_has_slot_up_to, last))

    def _passed(self, slot_id: int, at: datetime) -> HeldJob | None:
        """Return the job that has the slot, if the slot was passed on after the job got it; end the job if it waits."""
        task = self._by_slot.get(slot_id)
        if task is None or self._passed_on.get(slot_id, LONG_AGO) >= at:
            return None
        held = self._tasks[task]
        if held.stage is Stage.PASSED_ON:  # its successor is looked up already; the next recalls have any later change
            return None
        self._passed_on.note(slot_id, at)
        if held.stage in UNWRITTEN:
            held.move(Stage.PASSED_ON)
            task.cancel()
        return held


def _has_slot_up_to(last: int, job: Job) -> bool:
    return job.slot_id <= last
