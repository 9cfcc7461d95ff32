"""The watch: a thread that asks PostgreSQL, many times a second, which slots were recalled, and tells it of refusals.

A fetcher starts nothing while the last answer is older than `ratelimit.pacing.CONFIRMED_FOR_S`. It asks instead of
being notified: an answer to a question also proves that nothing was missed, and works through any connection pooler.
"""

import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue

import structlog
from django.db import Error, connection

from ratelimit import slots
from ratelimit.slots import Recall
from workers.fetches.refusals import Refusal, merged

log = structlog.get_logger(__name__)

PERIOD = 0.05  # seconds between two questions
WINDOW = 10.0  # seconds: recalls stay in the answers so long, far longer than a commit takes to be seen
RETRY_AFTER = 0.2  # seconds, while the database is away


class Watch:
    """One a fetcher. `heard` is called in this thread with the recalls, and the moment the question was asked at."""

    def __init__(self, heard: Callable[[list[Recall], float], None]) -> None:
        self._heard = heard
        self._refusals: SimpleQueue[Refusal | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="fetch-watch", daemon=True)
        self._thread.start()

    def refuse(self, refusal: Refusal) -> None:
        """Have the lane backed off for everybody, at once; never blocks."""
        self._refusals.put(refusal)

    def close(self) -> None:
        """Tell the database what is left, and end."""
        self._refusals.put(None)
        self._thread.join()

    def _work(self) -> None:
        untold: list[Refusal] = []
        ask_at, last = time.monotonic(), False
        while not last:
            new, last = self._wait(ask_at)
            untold = merged(untold + new)
            try:
                while untold and (last or time.monotonic() < ask_at + PERIOD):  # many are not to hold up the questions
                    _back_off(untold[0])
                    untold.pop(0)
                if time.monotonic() >= ask_at:
                    asked_at = time.monotonic()
                    self._heard(slots.recalls(WINDOW), asked_at)
                    ask_at = asked_at + PERIOD
            except Error as error:
                log.warning("watch_waits_for_database", error=str(error))
                connection.close()
                time.sleep(RETRY_AFTER)
        connection.close()

    def _wait(self, until: float) -> tuple[list[Refusal], bool]:
        """Return the refusals that have come, as soon as there is one, and whether the end was among them."""
        refusals: list[Refusal] = []
        timeout = max(0.0, until - time.monotonic())
        while True:
            try:
                refusal = self._refusals.get(timeout=timeout)
            except Empty:
                return refusals, False
            if refusal is None:
                return refusals, True
            refusals.append(refusal)
            timeout = 0.0


def _back_off(refusal: Refusal) -> None:
    try:
        seconds = slots.back_off(refusal.site, refusal.seconds, until=refusal.until, slot=refusal.slot_id)
    except slots.UnknownSite:
        log.warning("refusal_of_unknown_site", site=refusal.site)
        return
    if seconds is not None:
        log.info("site_backed_off", site=refusal.site, seconds=round(seconds, 1))
