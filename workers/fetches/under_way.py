"""What a fetcher has under way, and what recalls do to it. On the loop's thread only."""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import TypeVar

from ratelimit.models import LONG_AGO
from ratelimit.slots import Recall
from workers.fetches.claim import Job
from workers.fetches.outcomes import Event
from workers.fetches.paced_request import Batch

Value = TypeVar("Value")
MOST_REMEMBERED = 100_000  # recalls: far more than come within the time in which they are told again


class UnderWay:
    """The tasks of claimed jobs, until each is handed over."""

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[Event], tuple[Job, Batch]] = {}
        self._recalled: dict[int, int] = {}  # by site: the last slot that is void
        self._passed_on: dict[int, datetime] = {}  # by slot: when

    def __iter__(self) -> Iterator[asyncio.Task[Event]]:
        return iter(list(self._tasks))

    def add(self, task: asyncio.Task[Event], job: Job, batch: Batch) -> None:
        """Take in a job that has begun; ends it where its slot was recalled while it was claimed."""
        self._tasks[task] = (job, batch)
        if job.slot_id <= self._recalled.get(job.site_id, 0):
            task.cancel()

    def succeeds(self, job: Job, since: datetime) -> None:
        """Note that this job has had its slot since then: what was passed on until then does not concern it."""
        _remember(self._passed_on, {job.slot_id: since})

    def pop(self, task: asyncio.Task[Event]) -> tuple[Job, Batch]:
        """Let go of a task that is done."""
        return self._tasks.pop(task)

    def give_back(self, is_void: Callable[[Job], bool] = lambda _: True) -> None:
        """End those jobs that have not been written yet."""
        for task, (job, batch) in list(self._tasks.items()):
            if batch.waits_for(job) and is_void(job):
                task.cancel()

    def apply(self, recalls: Iterable[Recall]) -> Iterator[tuple[Job, bool]]:
        """End what was recalled; yields each job whose slot was passed on, once, and whether it still waited for it."""
        news: dict[int, int] = {}
        for recall in recalls:
            if recall.last_slot is not None and self._recalled.get(recall.site_id, 0) < recall.last_slot:
                news[recall.site_id] = recall.last_slot
            elif recall.passed_on is not None and self._passed_on.get(recall.passed_on, LONG_AGO) < recall.at:
                yield from self._let_go(recall.passed_on, recall.at)
        if news:
            _remember(self._recalled, news)
            self.give_back(lambda job: job.slot_id <= news.get(job.site_id, 0))

    def _let_go(self, slot_id: int, at: datetime) -> Iterator[tuple[Job, bool]]:
        for task, (job, batch) in list(self._tasks.items()):
            if job.slot_id == slot_id:
                _remember(self._passed_on, {slot_id: at})
                if still_waits := batch.waits_for(job):
                    task.cancel()
                yield job, still_waits


def _remember(known: dict[int, Value], news: dict[int, Value]) -> None:
    """Add what is new; forget what is oldest where there is too much."""
    known |= news
    for key in list(known)[:-MOST_REMEMBERED]:
        del known[key]
