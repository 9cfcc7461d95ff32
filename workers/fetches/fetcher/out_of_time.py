"""Starts of this fetcher that were out of their time, on their way to PostgreSQL.

The fetcher looks at the clock before it writes a request, and again directly afterwards. A process that is stopped
between the first look and the write writes late (docs/explanation/paced.md). The loop, which sees that, adds the start
here. The recall watcher, which may wait for PostgreSQL, reports it, and the site's clock is set past the start, for all
processes.
"""

from queue import SimpleQueue
from typing import Final

from weir.logs.loggers import get_logger
from weir.ratelimit import clock, out_of_time
from weir.ratelimit.out_of_time import OutOfTime
from weir.workers.fetches.jobs import Job

log = get_logger(__name__)

MOST_NAMED: Final = 20  # sites in a log line


class StartsOutOfTime:
    """What one fetcher has to report: one entry for each site, however many starts there were."""

    def __init__(self) -> None:
        self._new: SimpleQueue[OutOfTime] = SimpleQueue()
        self._left: list[OutOfTime] = []

    def add(self, job: Job, late_by_s: float) -> None:
        """Add this job, whose request was just written `late_by_s` late; never blocks. To be called immediately."""
        self._new.put(OutOfTime(site=job.site, slot_id=job.slot_id, at=clock.now()))
        log.warning(
            "started_out_of_time", **job.named, site=job.site, slot=job.slot_id, late_ms=round(late_by_s * 1000, 1)
        )

    def tell(self) -> None:
        """Report the starts to PostgreSQL, in one statement, which waits for no other transaction.

        Starts are left to the next call if their sites are locked, or too many. For the recall watcher's thread. Raises
        django.db.Error; then no start is forgotten.
        """
        new = [self._new.get() for _ in range(self._new.qsize())]
        self._left = out_of_time.merged([*self._left, *new])
        if not self._left:
            return
        told = out_of_time.note(self._left)
        self._left = list(told.left)
        for site in told.noted:
            log.info("site_set_behind", site=site.name, seconds=round(site.wait_s, 3), recalled=site.recalls)
        for start in told.unknown:
            log.warning("start_out_of_time_of_unknown_site", site=start.site)

    def close(self) -> None:
        """Log what could not be reported."""
        if self._left:
            named = [start.site for start in self._left[:MOST_NAMED]]
            log.warning("starts_out_of_time_not_told", sites=named, count=len(self._left))
