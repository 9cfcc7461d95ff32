"""The recall watcher: a thread that asks PostgreSQL, twenty times a second, which slots were recalled or passed on.

It also backs off the sites that have refused more requests, or cannot be reached, which recalls their slots in all
fetchers; and it tells which starts were out of their time (out_of_time.py).

A fetcher starts nothing while the last answer is older than `ratelimit.pacing.CONFIRMED_FOR_S`. It asks instead of
being notified: an answer to a question also proves that nothing was missed, and works through any connection pooler.
"""

import time
from collections.abc import Callable
from queue import Empty, SimpleQueue

import structlog
from django.db import Error, connection

from ratelimit import clock, site_settings, sites, slots
from ratelimit.slot_rows import Recall
from workers.fetches.fetcher.http.retry_after import Refusal, merged
from workers.fetches.fetcher.out_of_time import StartsOutOfTime
from workers.fetches.fetcher.parts import Part, database_patience_s, take_turn

log = structlog.get_logger(__name__)

PERIOD = 0.05  # seconds between two questions
WINDOW = 10.0  # seconds before the last question from which recalls are read again: some may have committed since
PATIENCE = 0.02  # seconds that a back-off, and the next question with it, waits for the lock of its site's row
DATABASE_RETRY_S = 0.2  # seconds, while the database is away


class RecallWatcher:
    """One a fetcher. It calls `heard`, in its thread, with the recalls and the time at which the question was sent.

    After each answer it also calls `note_turn`, which tells PostgreSQL when the loop last turned.
    """

    def __init__(self, heard: Callable[[list[Recall], float], None], note_turn: Callable[[], None]) -> None:
        self._heard = heard
        self._note_turn = note_turn
        self.out_of_time = StartsOutOfTime()
        self._refusals: SimpleQueue[Refusal | None] = SimpleQueue()
        self.part = Part("recall-watcher", self._work, patience_s=database_patience_s())

    def refuse(self, refusal: Refusal) -> None:
        """Have the site backed off at once, for all processes; never blocks."""
        self._refusals.put(refusal)

    def close(self, timeout: float) -> bool:
        """Back off the sites that are left, and end; returns False when that takes longer than `timeout` seconds."""
        self._refusals.put(None)
        return self.part.join(timeout)

    def _work(self) -> None:
        pending: list[Refusal] = []
        heard_at = ask_at = clock.now()
        last = False
        while not last:
            take_turn()
            new, last = self._wait(ask_at)
            pending = merged(pending + new)
            try:
                self.out_of_time.tell()
                for refusal in list(pending):
                    if not last and clock.now() >= ask_at + PERIOD:
                        break  # many refusals must not hold up the questions
                    is_settled = _back_off(refusal)
                    pending.remove(refusal)
                    if not is_settled:
                        pending.append(refusal)  # behind the others
                if clock.now() >= ask_at:
                    asked_at = clock.now()
                    self._heard(slots.recalls(asked_at - heard_at + WINDOW), asked_at)
                    heard_at, ask_at = asked_at, asked_at + PERIOD
                    self._note_turn()
            except Error as error:
                log.warning("watch_waits_for_database", error=str(error))
                connection.close()
                time.sleep(DATABASE_RETRY_S)
        if pending:
            log.warning("refusals_not_told", sites=[refusal.site for refusal in pending])
        self.out_of_time.close()
        connection.close()

    def _wait(self, until: float) -> tuple[list[Refusal], bool]:
        """Return the refusals that have come, as soon as there is one or at `until`, and whether this is the end."""
        refusals: list[Refusal] = []
        timeout = max(0.0, until - clock.now())
        while True:
            try:
                refusal = self._refusals.get(timeout=timeout)
            except Empty:
                return refusals, False
            if refusal is None:
                return refusals, True
            refusals.append(refusal)
            timeout = 0.0


def _back_off(refusal: Refusal) -> bool:
    """Back the site off; returns False where its row stays locked for PATIENCE, and this has to be tried again."""
    try:
        seconds = site_settings.back_off(
            refusal.site,
            refusal.seconds,
            until=refusal.until,
            slot=refusal.slot_id,
            error=refusal.error,
            patience_s=PATIENCE,
        )
    except site_settings.SiteBusy:
        return False
    except sites.UnknownSite:
        log.warning("refusal_of_unknown_site", site=refusal.site)
        return True
    if seconds is not None:
        log.info("site_backed_off", site=refusal.site, seconds=round(seconds, 1), error=refusal.error)
    return True
