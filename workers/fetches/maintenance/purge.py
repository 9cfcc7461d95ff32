"""Purge: results, robots.txt files and idle sites are deleted after their retention."""

from weir.conf import settings
from weir.postgres import batches
from weir.workers.fetches.maintenance import deleted_sites
from weir.workers.fetches.robots import crawl_delays

BATCH = 1_000
WITHIN_S = 5.0  # for each kind of row, of every ten minutes
ROBOTS_RETENTION = 7 * 86_400.0  # seconds for which a robots.txt is kept after it has expired

NOTES_RETENTION = 7 * 86_400.0  # seconds for which a deleted site is remembered: no transaction is open for so long


def purge() -> int:
    """Delete fetches that ended and robots.txt files that expired longer ago than their retention.

    So are sites that only fetches have made, and that were idle for so long (deleted_sites.py). Other sites lose the
    Crawl-delays that count no more. Returns the number of fetches.

    In short batches, which skip rows that other transactions have locked. What takes longer than WITHIN_S for a kind of
    row is left to the next purge. May be killed anywhere.
    """
    crawl_delays.settle_all()
    _purge("purge_robots_files", ROBOTS_RETENTION)
    deleted_sites.delete_idle()
    _purge("purge_deleted_sites", NOTES_RETENTION)
    return _purge("purge_fetches", settings.WEIR_FETCH_RETENTION)


def _purge(statement: str, older_than: float) -> int:
    parameters = {"older_than": older_than}
    return batches.delete("weir.workers.fetches.maintenance", statement, parameters, batch=BATCH, within_s=WITHIN_S)
