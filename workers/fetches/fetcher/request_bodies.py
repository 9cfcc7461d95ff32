"""Request bodies: read when their fetches are claimed, and held in a part of the fetcher's memory until jobs end."""

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from django.db import Error

from weir.conf import settings
from weir.logs.loggers import get_logger
from weir.postgres.statements import Statement
from weir.workers.fetches.jobs import Event, HeldBody, Job, Snoozed
from weir.workers.fetches.methods import SAFE

log = get_logger(__name__)

PART: Final = 0.25  # of WEIR_FETCH_MAX_MEMORY, beside what answers hold
SMALL: Final = 2**15  # bytes: larger bodies are read only when there is room for them
NO_ROOM: Final = "waits: the bodies of other requests have all memory (WEIR_FETCH_MAX_MEMORY)"


class StoredBody(NamedTuple):
    """The body of one fetch, if it is small enough, and its size in bytes."""

    fetch_id: int
    content: bytes | None
    size: int


REQUEST_BODIES = Statement("request_bodies", row=StoredBody, commits=False)


class RequestBodies:
    """The bytes of requests' bodies that one fetcher holds. Thread-safe.

    A site has room for another body if it then holds no more than was free before ("dynamic thresholds",
    Choudhury and Hahne, 1998): one has about half of the memory, two have a third each, and some is left for others.
    """

    def __init__(self) -> None:
        self._held = 0
        self._of_site: Counter[int] = Counter()
        self._lock = threading.Lock()

    def admit(self, jobs: Sequence[Job]) -> tuple[list[Job], list[Event]]:
        """Return the jobs with their bodies, and the events of those for whose bodies there is no room now.

        None is dropped. If no other body is held, there is room for the first one. Jobs whose method has no body cost
        nothing. For the claimer's thread.
        """
        if not (sending := [job for job in jobs if job.method not in SAFE]):
            return list(jobs), []
        try:
            found = self._found(sending)
        except Error:  # the jobs are claimed and must not be dropped: they wait
            log.exception("request_bodies_not_read")
            found = dict.fromkeys(job.fetch_id for job in sending)
        admitted: list[Job] = []
        turned_away: list[Event] = []
        for job in jobs:
            content = found.get(job.fetch_id, b"")
            if content is None:
                turned_away.append(Snoozed(job=job, reason=NO_ROOM))
            else:
                admitted.append(replace(job, body=self._hold(job.site_id, bytes(content))) if content else job)
        return admitted, turned_away

    def free(self, job: Job) -> None:
        """Let go of the job's body: the job has ended."""
        if job.body is not None:
            with self._lock:
                self._held -= len(job.body.content)
                self._of_site[job.site_id] -= len(job.body.content)
                self._of_site += Counter()  # forgets sites that hold nothing
                job.body.content = b""

    def _found(self, sending: Sequence[Job]) -> dict[int, bytes | None]:
        """Return the bodies of these jobs by fetch; None where there is no room."""
        stored = {row.fetch_id: row for row in REQUEST_BODIES(fetches=[job.fetch_id for job in sending], most=SMALL)}
        with_room = self._with_room(sending, {fetch: row.size for fetch, row in stored.items()})
        found = {fetch: row.content if fetch in with_room else None for fetch, row in stored.items()}
        if large := [fetch for fetch in with_room if found[fetch] is None]:
            found |= {row.fetch_id: row.content for row in REQUEST_BODIES(fetches=large, most=None)}
        return found

    def _with_room(self, sending: Sequence[Job], sizes: Mapping[int, int]) -> list[int]:
        """Return the fetches that have room for their bodies. Only this thread takes room: it never gets less."""
        with self._lock:
            held, of_site = self._held, Counter(self._of_site)
        with_room = []
        for job in (job for job in sending if job.fetch_id in sizes):
            size = sizes[job.fetch_id]
            free = int(PART * settings.WEIR_FETCH_MAX_MEMORY) - held
            if not held or of_site[job.site_id] + size <= free:
                held += size
                of_site[job.site_id] += size
                with_room.append(job.fetch_id)
        return with_room

    def _hold(self, site_id: int, content: bytes) -> HeldBody:
        with self._lock:
            self._held += len(content)
            self._of_site[site_id] += len(content)
        return HeldBody(content)
