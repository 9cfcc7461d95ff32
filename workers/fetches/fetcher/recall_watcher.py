"""The recall watcher: a thread that asks PostgreSQL, twenty times a second, which slots were recalled or passed on.

It also stores that sites are to be left alone (`SiteRest`), because they refused more requests, said that a quota is
used up, or cannot be reached. This recalls their slots in all fetchers. Between two questions, the watcher executes one
statement for each such site, however often the site said so, and spends at most PERIOD on all of them together. Sites
for which no time is left wait for their turn after the next question. The watcher also reports which starts were out of
their time (out_of_time.py).

A fetcher starts nothing while the last answer is older than `weir.ratelimit.pacing.CONFIRMED_FOR_S`. The watcher asks
PostgreSQL instead of being notified: an answer also proves that no recall was missed, and questions work through any
connection pooler.
"""

import math
import time
from collections.abc import Callable
from datetime import datetime
from queue import Empty, SimpleQueue
from typing import TypedDict

from django.db import DataError, Error, connection

from weir.logs.loggers import get_logger
from weir.postgres import sessions
from weir.ratelimit import clock, site_settings, sites, slots
from weir.ratelimit.slot_rows import Recall
from weir.workers.fetches.fetcher.out_of_time import StartsOutOfTime
from weir.workers.fetches.fetcher.parts import FetcherPart, database_patience_s, take_turn
from weir.workers.fetches.fetcher.refusals.rests import SiteRest, merged

log = get_logger(__name__)

PERIOD = 0.05  # seconds between two questions
WINDOW = 10.0  # seconds before the last question, of which recalls are read again: some may have committed since
PATIENCE = 0.02  # seconds that a rest waits for the lock of its site's row, and delays the next question
MOST_AT_ONCE = 10_000  # rests that are taken from the queue in one turn
DATABASE_RETRY_S = 0.2  # seconds between two attempts while the database is away


class _Stated(TypedDict):
    until: datetime | None
    reason: str
    patience_s: float


class RecallWatcher:
    """The recall watcher of one fetcher. It calls `heard`, in its thread, with the recalls and the question's time.

    That is the time at which the question was sent. After each answer it also calls `note_turn`, which tells PostgreSQL
    when the loop last turned.
    """

    def __init__(self, heard: Callable[[list[Recall], float], None], note_turn: Callable[[], None]) -> None:
        self._heard = heard
        self._note_turn = note_turn
        self.out_of_time = StartsOutOfTime()
        self._rests: SimpleQueue[SiteRest | None] = SimpleQueue()
        self.part = FetcherPart("recall-watcher", self._work, patience_s=database_patience_s())

    def rest(self, rest: SiteRest) -> None:
        """Make all processes leave the site alone immediately; never blocks."""
        self._rests.put(rest)

    def close(self, timeout: float) -> bool:
        """Store each `SiteRest` that is left, and end; returns False when that takes longer than `timeout` seconds."""
        self._rests.put(None)
        return self.part.join(timeout)

    def _work(self) -> None:
        pending: list[SiteRest] = []
        told: set[str] = set()  # the sites whose statement was executed since the last question
        heard_at = ask_at = clock.now()
        last = False
        while not last:
            take_turn()
            new, last = self._wait(ask_at if all(rest.site in told for rest in pending) else heard_at)
            pending = merged(pending + new)
            try:
                self.out_of_time.tell()
                if last:
                    _tell(pending, set(), math.inf)
                else:
                    _tell(pending, told, ask_at + PERIOD)
                if clock.now() >= ask_at:
                    asked_at = clock.now()
                    self._heard(slots.recalls(asked_at - heard_at + WINDOW), asked_at)
                    heard_at, ask_at = asked_at, asked_at + PERIOD
                    told.clear()
                    self._note_turn()
            except Error as error:
                log.warning("watch_waits_for_database", error=str(error))
                sessions.leave(connection)
                time.sleep(DATABASE_RETRY_S)
        if pending:
            log.warning("refusals_not_told", sites=[rest.site for rest in pending])
        self.out_of_time.close()
        connection.close()

    def _wait(self, until: float) -> tuple[list[SiteRest], bool]:
        """Return the rests that have come, as soon as there is one or at `until`, and whether the watcher is to end."""
        rests: list[SiteRest] = []
        timeout = max(0.0, until - clock.now())
        while len(rests) < MOST_AT_ONCE:
            try:
                rest = self._rests.get(timeout=timeout)
            except Empty:
                break
            if rest is None:
                return rests, True
            rests.append(rest)
            timeout = 0.0
        return rests, False


def _tell(pending: list[SiteRest], told: set[str], give_up_at: float) -> None:
    """Store the rests of sites that are not in `told`, in their order, until it is time for the next question.

    A rest that is settled leaves `pending`; if the site's row is locked, it goes behind the others.
    """
    for rest in list(pending):
        if clock.now() >= give_up_at:
            return
        if rest.site in told:
            continue
        is_settled = _leave_alone(rest)
        told.add(rest.site)
        pending.remove(rest)
        if not is_settled:
            pending.append(rest)


def _leave_alone(rest: SiteRest) -> bool:
    """Store one `SiteRest`; returns False if the site's row stays locked for PATIENCE: then the caller tries again."""
    stated: _Stated = {"until": rest.until, "reason": rest.reason, "patience_s": PATIENCE}
    try:
        if rest.is_refusal:
            seconds = site_settings.back_off(rest.site, rest.seconds, **stated, slot=rest.slot_id, error=rest.error)
        else:
            seconds = site_settings.rest(rest.site, rest.seconds, **stated)
    except site_settings.SiteBusy:
        return False
    except (DataError, ValueError):  # a rest that cannot be stored must not block all others
        log.exception("rest_not_told", site=rest.site)
        return True
    except sites.UnknownSite:
        log.warning("refusal_of_unknown_site", site=rest.site)
        return True
    if seconds is not None:
        event = "site_backed_off" if rest.is_refusal else "site_rests"
        log.info(event, site=rest.site, seconds=round(seconds, 1), reason=rest.reason, error=rest.error)
    return True
