"""The writer: a thread that judges the events of the loop and stores them, so that the loop never waits for PostgreSQL.

1. It gathers events for a PERIOD, up to MOST_BYTES of bodies.
2. It judges each: what becomes of the fetch (outcomes.py). That decompresses bodies, which the loop must not do either.
3. It stores the outcomes in one statement, however long PostgreSQL is away (store.py), and frees the fetcher's room.
"""

import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from random import random

import structlog
from django.conf import settings
from django.db import connection

from workers.fetches.addresses import allowed_by_settings
from workers.fetches.fetcher.parts import TURN_S, Part, database_patience_s, take_turn
from workers.fetches.fetcher.results import fetch_spans
from workers.fetches.fetcher.results.outcomes import judge
from workers.fetches.fetcher.results.store import store_surely
from workers.fetches.jobs import Answer, Event, Outcome, Reservation
from workers.fetches.models import State

log = structlog.get_logger(__name__)

PERIOD = 0.1  # seconds for which a result waits for others, to be stored together
MOST_BYTES = 16 * 2**20  # of bodies in one statement


class Writer:
    """One a fetcher. It calls `stored`, in its thread, with the number of events that were stored, and their bytes.

    The thread keeps its connection: a new one costs more than a hundred results.
    """

    def __init__(self, stored: Callable[[int, list[Reservation]], None]) -> None:
        self._events: SimpleQueue[Event | None] = SimpleQueue()
        self._reservations: list[Reservation] = []  # of what was gathered, and is not stored yet
        self._stored = stored
        self.part = Part("writer", self._work, patience_s=database_patience_s())

    def put(self, event: Event) -> None:
        """Hand over an event; never blocks."""
        self._events.put(event)

    def close(self, timeout: float) -> bool:
        """Store what is left, and end; returns False when that takes longer than `timeout` seconds."""
        self._events.put(None)
        return self.part.join(timeout)

    def _work(self) -> None:
        last = False
        while not last:
            take_turn()
            outcomes, last = self._gather()
            if outcomes:
                store_surely(outcomes)
                self._stored(len(outcomes), self._reservations)
                self._reservations = []
        connection.close()

    def _gather(self) -> tuple[list[Outcome], bool]:
        """Return the outcomes of about one PERIOD, and whether they are the last; none where none comes for a turn."""
        outcomes: list[Outcome] = []
        until = None
        size = 0
        while size < MOST_BYTES:
            try:
                event = self._events.get(timeout=TURN_S if until is None else max(0.0, until - time.monotonic()))
            except Empty:
                break
            if event is None:
                return outcomes, True
            until = until or time.monotonic() + PERIOD
            if isinstance(event, Answer) and event.reservation is not None:
                self._reservations.append(event.reservation)
            outcomes.append(_judged(event))
            fetch_spans.record(event, outcomes[-1])
            size += len(outcomes[-1].content or b"")  # decompressed, as it is sent to the database
        return outcomes, False


def _judged(event: Event) -> Outcome:
    """Judge an event; an unexpected error fails this one fetch, not the writer."""
    try:
        chance = random()  # noqa: S311  jitter
        return judge(event, max_body=settings.WEIR_FETCH_MAX_BODY, chance=chance, allowed=allowed_by_settings())
    except Exception as error:
        log.exception("event_not_judged", **event.job.named)
        reason = f"the answer could not be judged: {type(error).__name__}"
        job = event.job
        return Outcome(
            fetch_id=job.fetch_id,
            slot_id=job.slot_id,
            state=State.FAILED,
            error=reason,
            correlation_id=job.correlation_id,
        )
