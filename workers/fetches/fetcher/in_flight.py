"""What a fetcher has under way, and what recalls do to it. On the loop's thread only."""

import asyncio
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from ratelimit.models import LONG_AGO
from ratelimit.slots import Recall
from workers.fetches.jobs import Event, Job

Value = TypeVar("Value")
MOST_REMEMBERED = 100_000  # recalls: far more than come within the time in which they are told again


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


@dataclass(eq=False, kw_only=True, slots=True)
class Held:
    """One claimed job, and the batch that waits for its start."""

    job: Job
    batch: Batch
    has_slot: bool = True  # False: its slot was passed on

    @property
    def waits(self) -> bool:
        """Tell whether the job still waits for its slot."""
        return self.batch.waits_for(self.job)


class InFlight:
    """The tasks of claimed jobs, until each is handed over."""

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[Event], Held] = {}
        self._by_slot: dict[int, asyncio.Task[Event]] = {}
        self._recalled: dict[int, int] = {}  # by site: the last slot that is void
        self._passed_on: dict[int, datetime] = {}  # by slot: when

    def __iter__(self) -> Iterator[asyncio.Task[Event]]:
        return iter(list(self._tasks))

    def add(self, task: asyncio.Task[Event], job: Job, batch: Batch) -> None:
        """Take in a job that has begun; ends it where its slot was recalled while it was claimed."""
        self._tasks[task] = Held(job=job, batch=batch)
        self._by_slot[job.slot_id] = task
        if job.slot_id <= self._recalled.get(job.site_id, 0):
            task.cancel()

    def succeeds(self, job: Job, since: datetime) -> None:
        """Note that this job has had its slot since then: what was passed on until then does not concern it."""
        _remember(self._passed_on, {job.slot_id: since})

    def pop(self, task: asyncio.Task[Event]) -> Held:
        """Let go of a task that is done."""
        held = self._tasks.pop(task)
        if self._by_slot.get(held.job.slot_id) is task:
            del self._by_slot[held.job.slot_id]
        return held

    def give_back(self, is_void: Callable[[Job], bool] = lambda _: True) -> None:
        """End those jobs that have not been written yet."""
        for task, held in list(self._tasks.items()):
            if held.waits and is_void(held.job):
                task.cancel()

    def apply(self, recalls: Iterable[Recall]) -> Iterator[Held]:
        """End what was recalled; yields what is held in each slot that was passed on, once, and ends it if it waits."""
        news: dict[int, int] = {}
        for recall in recalls:
            if recall.last_slot is not None and self._recalled.get(recall.site_id, 0) < recall.last_slot:
                news[recall.site_id] = recall.last_slot
            elif recall.passed_on is not None and (held := self._passed(recall.passed_on, recall.at)):
                yield held
        if news:
            _remember(self._recalled, news)
            self.give_back(lambda job: job.slot_id <= news.get(job.site_id, 0))

    def _passed(self, slot_id: int, at: datetime) -> Held | None:
        """Return what is held in a slot that was passed on since it got it."""
        task = self._by_slot.get(slot_id)
        if task is None or self._passed_on.get(slot_id, LONG_AGO) >= at:
            return None
        held = self._tasks[task]
        if not held.has_slot:  # whoever has it is being looked up; what was passed on after that is told again
            return None
        _remember(self._passed_on, {slot_id: at})
        if held.waits:
            held.has_slot = False
            task.cancel()
        return held


def _remember(known: dict[int, Value], news: dict[int, Value]) -> None:
    """Add what is new; forget what is oldest where there is too much."""
    known |= news
    for key in list(known)[:-MOST_REMEMBERED]:
        del known[key]
