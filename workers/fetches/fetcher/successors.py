"""Successors: fetches that got the slots of cancelled fetches, which a fetcher held. For the claimer's thread."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple

from django.db import Error

from weir.logs.loggers import get_logger
from weir.workers.fetches.fetcher.claim import reconnecting, successors_of
from weir.workers.fetches.jobs import Event, Job, Snoozed

log = get_logger(__name__)

MOST: Final = 200  # successors that one call of the claimer looks up; between two calls it can claim for messages
MOST_NAMED: Final = 20  # slots in a log line


class PassedOn(NamedTuple):
    """A job that was cancelled, and whether its slot is free, because its request was not written."""

    job: Job
    slot_is_free: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Successors:
    """The successors that were found: those to be started, and those that already have an event to be stored."""

    start: Sequence[tuple[Job, datetime]] = ()  # each with the time since which it has the slot
    events: Sequence[Event] = field(default=())

    @property
    def places(self) -> int:
        return len(self.start) + len(self.events)


def look_up(passed_on: Sequence[PassedOn], admit: Callable[[list[Job]], tuple[list[Job], list[Event]]]) -> Successors:
    """Look up the successors of these jobs in one statement; a successor whose slot was already used is given back.

    `admit` returns those that may be requested, and the events of the others.
    """
    try:
        found = reconnecting(successors_of, [job for job, _ in passed_on])
    except Error:  # sweep takes the successors back when their leases end
        slots = [job.slot_id for job, _ in passed_on]
        log.exception("successor_not_looked_up", fetches=len(slots), slots=slots[:MOST_NAMED])
        return Successors()
    free = {job.slot_id for job, slot_is_free in passed_on if slot_is_free}
    used = [Snoozed(job=successor, slot_used=True) for successor, _ in found if successor.slot_id not in free]
    since = {successor.fetch_id: at for successor, at in found}
    jobs, turned_away = admit([job for job, _ in found if job.slot_id in free])
    return Successors(start=[(job, since[job.fetch_id]) for job in jobs], events=[*used, *turned_away])
