"""The writer: a thread that judges what attempts came to, and stores it, so that the loop never waits for the database."""

import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from random import random

import structlog
from django.conf import settings
from django.db import connection

from workers.fetches.fetcher.outcomes import judge
from workers.fetches.fetcher.store import store_surely
from workers.fetches.jobs import Event, Outcome
from workers.fetches.models import State

log = structlog.get_logger(__name__)

PERIOD = 0.1  # seconds: results wait at most this long for company
MOST_BYTES = 16 * 2**20  # of bodies in one statement


class Writer:
    """A thread that stores what the fetcher's loop hands over, so that the loop never waits for the database.

    It keeps its connection: a new one costs more than a hundred results.

    Judging (which decompresses bodies) happens here too. `stored` is called with the number of events behind us.
    """

    def __init__(self, stored: Callable[[int], None]) -> None:
        self._events: SimpleQueue[Event | None] = SimpleQueue()
        self._stored = stored
        self._thread = threading.Thread(target=self._work, name="fetch-writer", daemon=True)
        self._thread.start()

    def put(self, event: Event) -> None:
        """Hand over an event; never blocks."""
        self._events.put(event)

    def close(self, timeout: float) -> bool:
        """Store what is left; returns False when that took longer than `timeout` seconds."""
        self._events.put(None)
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _work(self) -> None:
        last = False
        while not last:
            outcomes, last = self._gather()
            if outcomes:
                store_surely(outcomes)
                self._stored(len(outcomes))
        connection.close()

    def _gather(self) -> tuple[list[Outcome], bool]:
        """Return the outcomes of about one period, and whether the end was among them."""
        outcomes: list[Outcome] = []
        until = None
        size = 0
        while size < MOST_BYTES:
            try:
                event = self._events.get(timeout=None if until is None else max(0.0, until - time.monotonic()))
            except Empty:
                break
            if event is None:
                return outcomes, True
            until = until or time.monotonic() + PERIOD
            outcomes.append(_judged(event))
            size += len(outcomes[-1].content or b"")  # decompressed, as it is sent to the database
        return outcomes, False


def _judged(event: Event) -> Outcome:
    """Judge an event; what nobody has thought of fails this one fetch, not the writer."""
    try:
        return judge(event, max_body=settings.WEIR_FETCH_MAX_BODY, chance=random())  # noqa: S311  jitter
    except Exception as error:
        log.exception("event_not_judged", fetch=event.job.fetch_id)
        reason = f"the answer could not be judged: {type(error).__name__}"
        return Outcome(fetch_id=event.job.fetch_id, slot_id=event.job.slot_id, state=State.FAILED, error=reason)
