"""Request bodies: read when their fetches are claimed, and held in a part of the fetcher's memory until jobs end."""

import threading
from collections.abc import Sequence
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
NO_ROOM: Final = "waits: the bodies of other requests have all memory (WEIR_FETCH_MAX_MEMORY)"


class StoredBody(NamedTuple):
    """The body of one fetch, and None in its place if there is no room for it."""

    fetch_id: int
    content: bytes | None


REQUEST_BODIES = Statement("request_bodies", row=StoredBody, commits=False)


class RequestBodies:
    """The bytes of requests' bodies that one fetcher holds. Thread-safe."""

    def __init__(self) -> None:
        self._held = 0
        self._lock = threading.Lock()

    def admit(self, jobs: Sequence[Job]) -> tuple[list[Job], list[Event]]:
        """Return the jobs with their bodies, and the events of those for whose bodies there is no room now.

        None is dropped. If no other body is held, there is room for the first one. Jobs whose method has no body cost
        nothing. For the claimer's thread.
        """
        if not (sending := [job.fetch_id for job in jobs if job.method not in SAFE]):
            return list(jobs), []
        try:
            found = {row.fetch_id: row.content for row in REQUEST_BODIES(fetches=sending, **self._room())}
        except Error:  # the jobs are claimed and must not be dropped: they wait
            log.exception("request_bodies_not_read")
            found = dict.fromkeys(sending)
        admitted: list[Job] = []
        turned_away: list[Event] = []
        for job in jobs:
            content = found.get(job.fetch_id, b"")
            if content is None:
                turned_away.append(Snoozed(job=job, reason=NO_ROOM))
            else:
                admitted.append(replace(job, body=self._hold(bytes(content))) if content else job)
        return admitted, turned_away

    def free(self, job: Job) -> None:
        """Let go of the job's body: the job has ended."""
        if job.body is not None:
            with self._lock:
                self._held -= len(job.body.content)
                job.body.content = b""

    def _room(self) -> dict[str, object]:
        """Return how many bytes may be held beside those that are, and whether none are."""
        with self._lock:
            return {"most": int(PART * settings.WEIR_FETCH_MAX_MEMORY) - self._held, "is_empty": not self._held}

    def _hold(self, content: bytes) -> HeldBody:
        with self._lock:
            self._held += len(content)
        return HeldBody(content)
