"""A scrape of all metrics. Each part is read by itself, so that a part that fails or hangs does not affect the others.

1. The scrape connects to the database once. If the database is away, the parts that need it fail immediately.
2. Each of these parts reads in a transaction of its own, whose statements PostgreSQL ends after STATEMENT_S.
3. A part that fails is left out, and so is a part that has not begun after BUDGET_S. `weir_scrape_errors{part=}` shows
   both.

One thread of a process scrapes at a time. All other threads get the last scrape for FRESH_S, and for up to HOLDS_S
while one thread is at the next scrape.
"""

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from django.db import DatabaseError, InterfaceError, connection
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from weir.conf import settings
from weir.logs.loggers import get_logger
from weir.notifications import counters
from weir.ops.metrics.families import gauges
from weir.ops.metrics.parts import build, database, history, processes, sites, unread, work
from weir.postgres import bounded
from weir.workers import broker_link

log = get_logger(__name__)

FRESH_S: Final = 5.0  # how long the last scrape is returned again
HOLDS_S: Final = 15.0  # how long the last scrape is returned again while another thread makes the next one
STATEMENT_S: Final = 1.0  # after this time PostgreSQL ends a statement
BUDGET_S: Final = 5.0  # after this time no further part begins, because Prometheus gives up after ten seconds
DATABASE_ERRORS: Final = (DatabaseError, InterfaceError)
ERRORS: Final = (*DATABASE_ERRORS, broker_link.BrokerUnreachable, counters.RedisUnreachable)


class Busy(Exception):
    """Another thread's scrape has not ended, and the last scrape is too old."""


@dataclass(frozen=True, kw_only=True)
class ScrapedPart:
    """Some families that are read together."""

    name: str
    ask: Callable[[], Iterable[Metric]]
    of_database: bool = True


@dataclass(frozen=True, kw_only=True, eq=False)  # a registry keeps its collectors by identity
class Scrape(Collector):
    """The families that were read, as a collector for a registry of its own."""

    at: float = float("-inf")  # by time.monotonic()
    families: Sequence[Metric] = ()

    def collect(self) -> Iterable[Metric]:
        return self.families


def parts() -> list[ScrapedPart]:
    """Return all parts, in the order in which they are read."""
    found = [
        ScrapedPart(name="processes", ask=processes.families),
        ScrapedPart(name="work", ask=work.families),
        ScrapedPart(name="unread", ask=unread.families),
        ScrapedPart(name="database", ask=database.families),
        ScrapedPart(name="history", ask=history.families),
        ScrapedPart(name="messages", ask=processes.message_families, of_database=False),
        ScrapedPart(name="deltas", ask=unread.delta_families, of_database=False),
    ]
    return [*found, ScrapedPart(name="sites", ask=sites.families)] if settings.WEIR_METRICS_SITES else found


class Scraper:
    """Keeps the last scrape, and lets one thread at a time make the next one."""

    def __init__(self) -> None:
        self._asking = threading.Lock()
        self._last = Scrape()

    def scrape(self) -> Scrape:
        """Return a scrape that is less than FRESH_S old, or make one now; raises Busy."""
        last = self._last
        if time.monotonic() < last.at + FRESH_S:
            return last
        if not self._asking.acquire(blocking=False):
            if time.monotonic() < last.at + HOLDS_S:
                return last
            raise Busy
        try:
            self._last = scrape()
        finally:
            self._asking.release()
        return self._last


def scrape() -> Scrape:
    """Read all parts now. Raises nothing if a server is away."""
    families: list[Metric] = [build.family()]
    errors: dict[str, float] = {}
    is_reachable = _is_reachable()
    give_up_at = time.monotonic() + BUDGET_S
    for part in parts():
        found = _read(part) if time.monotonic() < give_up_at and (is_reachable or not part.of_database) else None
        families += found or ()
        errors[part.name] = float(found is None)
    families.append(
        gauges("weir_scrape_errors", "1 where this part could not be read, and is left out.", "part", errors)
    )
    return Scrape(at=time.monotonic(), families=families)


def _is_reachable() -> bool:
    try:
        connection.ensure_connection()
    except DATABASE_ERRORS as error:
        log.warning("metrics_without_database", error=str(error))
        return False
    return True


def _read(part: ScrapedPart) -> list[Metric] | None:
    """Return the families of a part; None if it cannot be read."""
    try:
        if not part.of_database:
            return list(part.ask())
        with bounded.reading(STATEMENT_S):
            return list(part.ask())
    except ERRORS as error:
        log.warning("metrics_part_failed", part=part.name, error=str(error))
        return None
