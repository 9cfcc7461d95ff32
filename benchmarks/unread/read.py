"""Milliseconds to read a user's unread number, with five million notifications, compared with Django's `count()`.

The table is vacuumed, which is best for the peer: it counts from the partial index alone.
"""

import time
from collections.abc import Callable
from statistics import median, quantiles

from benchmarks.figures import Figure
from benchmarks.unread import stores
from weir.notifications import inbox
from weir.notifications.models import Notification

ROUNDS = 10
CALLS = 200


def compare() -> list[Figure]:
    """Return median and 99th percentile of both sides, and the ratio of the medians, for few unread rows and many."""
    return [figure for unread, user_id in stores.PROBED.items() for figure in _compare(unread, user_id)]


def _compare(unread: int, user_id: int) -> list[Figure]:
    def ours() -> int:
        return inbox.unread_count(user_id)

    def count() -> int:
        return Notification.objects.filter(user_id=user_id, read_at__isnull=True).count()

    if (found := (ours(), count())) != (unread, unread):
        raise AssertionError(f"{unread} rows are unread, but the sides say {found}")
    for _ in range(CALLS):  # not measured: psycopg prepares statements only after some calls
        ours()
        count()
    rounds = [(_times(ours), _times(count)) for _ in range(ROUNDS)]
    return [
        *_percentiles(f"unread_count_{unread}", [taken for times, _ in rounds for taken in times]),
        *_percentiles(f"count_{unread}", [taken for _, times in rounds for taken in times]),
        Figure(
            name=f"count_{unread}_vs_unread_count",
            value=median(median(of_count) / median(of_ours) for of_ours, of_count in rounds),
            unit="x",
        ),
    ]


def _percentiles(what: str, times_ms: list[float]) -> list[Figure]:
    return [
        Figure(name=f"{what}_p50_ms", value=median(times_ms), unit="ms"),
        Figure(name=f"{what}_p99_ms", value=quantiles(times_ms, n=100)[98], unit="ms"),
    ]


def _times(call: Callable[[], int]) -> list[float]:
    times_ms = []
    for _ in range(CALLS):
        began = time.perf_counter()
        call()
        times_ms.append((time.perf_counter() - began) * 1_000)
    return times_ms
