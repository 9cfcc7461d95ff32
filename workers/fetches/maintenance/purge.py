"""Purge: results, batches, robots.txt files and idle sites are deleted after their retention."""

from django.db import transaction

from weir.conf import settings
from weir.postgres import batches
from weir.postgres.statements import Statement
from weir.ratelimit.changing.deleting import PURGE_DELETED_SITES
from weir.workers.fetches.maintenance import deleted_sites
from weir.workers.fetches.robots import crawl_delays

OLD_BATCHES = Statement("old_batches", returns=int, commits=False)
PURGE_BATCHES = Statement("purge_batches", commits=False)
PURGE_FETCHES = Statement("purge_fetches", returns=int, commits=True)
PURGE_TOKENS = Statement("purge_tokens", returns=int, commits=True)
PURGE_ROBOTS_FILES = Statement("purge_robots_files", returns=int, commits=True)
PURGE_WEBHOOKS = Statement("purge_webhooks", returns=int, commits=True)

BATCH = 1_000
WITHIN_S = 5.0  # seconds for each kind of row, once in ten minutes
ROBOTS_RETENTION = 7 * 86_400.0  # seconds for which a robots.txt is kept after it has expired
WEBHOOK_RETENTION = 3_600.0  # seconds for which a webhook is kept after it was received, as long as slots at least
TOKEN_RETENTION = 86_400.0  # seconds for which an access token is kept after it was last due

NOTES_RETENTION = 7 * 86_400.0  # seconds for which a deleted site is remembered: no transaction is open that long


def purge() -> int:
    """Delete fetches that ended and robots.txt files that expired longer ago than their retention.

    It also deletes sites that only fetches have made, and that were idle for their retention (deleted_sites.py). Other
    sites lose the Crawl-delays that no longer count. Returns the number of deleted fetches.

    Works in short batches, which skip rows that other transactions have locked. After WITHIN_S, the rest of a kind of
    row is left to the next purge. May be killed anywhere.
    """
    crawl_delays.settle_all()
    _delete(PURGE_ROBOTS_FILES, ROBOTS_RETENTION)
    _delete(PURGE_TOKENS, TOKEN_RETENTION)
    deleted_sites.delete_idle()
    _delete(PURGE_DELETED_SITES, NOTES_RETENTION)
    _delete(PURGE_WEBHOOKS, max(WEBHOOK_RETENTION, settings.WEIR_SLOT_RETENTION))  # the history counts both
    deleted = _delete(PURGE_FETCHES, settings.WEIR_FETCH_RETENTION)
    purge_batches()
    return deleted


def purge_batches() -> None:
    """Delete batches that ended longer ago than WEIR_FETCH_RETENTION, and of which no fetch is left; the oldest first.

    A batch is locked before a second statement, with a newer snapshot, looks for its fetches: a caller that has asked
    for one meanwhile has either held the batch (joining.py), and it is skipped, or has committed.
    """
    with transaction.atomic(durable=True):
        if old := OLD_BATCHES(older_than=settings.WEIR_FETCH_RETENTION, most=BATCH):
            PURGE_BATCHES(ids=old)


def _delete(statement: Statement[int], older_than: float) -> int:
    return batches.delete(statement, batch=BATCH, within_s=WITHIN_S, older_than=older_than)
