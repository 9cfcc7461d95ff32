"""Unread numbers: trust, doubts, flush, full scan, repairs."""

from collections.abc import Iterator

from prometheus_client.metrics_core import Metric

from weir.notifications import counters
from weir.notifications.reports import unread_status
from weir.ops.metrics.families import BOUNDED, counter, gauge


def families() -> Iterator[Metric]:
    """Yield the metrics that PostgreSQL knows, without the age of anything that has never happened."""
    seen = unread_status()
    yield gauge("weir_unread_trusted", "1 where Redis' deltas are complete; 0: readers count rows.", bool(seen.trusted))
    yield gauge("weir_unread_doubts", f"Users whose rows are counted, as a delta may be lost. {BOUNDED}", seen.doubts)
    yield gauge(
        "weir_unread_oldest_doubt_seconds", "Age of the oldest doubt; 0: there is none.", seen.oldest_doubt_s or 0
    )
    if seen.flushed_s is not None:
        meaning = "Since deltas last came to PostgreSQL; grows while nothing changes."
        yield gauge("weir_unread_flush_age_seconds", meaning, max(0.0, seen.flushed_s))
    if seen.scan_share is not None:
        meaning = "How far the current full scan of all users is, by their keys, from 0 to 1."
        yield gauge("weir_unread_scan_progress_ratio", meaning, seen.scan_share)
    if seen.scan_ended_at is not None:
        age_s = (seen.now - seen.scan_ended_at).total_seconds()
        yield gauge("weir_unread_scan_age_seconds", "Since the last whole full scan ended.", max(0.0, age_s))
    yield counter("weir_unread_repaired_users", "Unread numbers that were wrong, and repaired.", seen.repaired_users)


def delta_families() -> Iterator[Metric]:
    """Yield the number of deltas that wait in Redis. Raises counters.RedisUnreachable."""
    yield gauge("weir_unread_deltas_waiting", "Deltas in Redis that wait for the next flush.", counters.waiting())
