"""Milliseconds to mark all of a user's notifications as read, by their number, compared with Django's `update()`.

Each call but the last of a user is rolled back, so that the next one finds the same rows. Then the covered rows are
settled, and numbers are read meanwhile.
"""

import time
from collections.abc import Callable
from functools import partial
from statistics import median

from django.db import connection, transaction
from django.db.models import QuerySet
from django.utils import timezone

from benchmarks.database import run_at_length
from benchmarks.figures import Figure
from weir.notifications import inbox
from weir.notifications.inbox import read_marks
from weir.notifications.models import Notification

ROUNDS = 21
UNREAD = {100: -1, 1_000: -2, 1_000_000: -3}  # users by their number of unread rows
READS = 200
FILL = """
    INSERT INTO weir_notifications_notification (user_id, kind, title, body, url)
    SELECT {user}, 'news', 'Hello', '', '' FROM generate_series(1, {rows});
    INSERT INTO weir_notifications_unreadcount (user_id, unread_count, epoch) VALUES ({user}, {rows}, 0)
"""


def compare() -> list[Figure]:
    """Return the median of each size, the peer's, and what settling a million rows takes."""
    figures = []
    for rows, user in UNREAD.items():
        run_at_length(FILL.format(user=user, rows=rows))
        run_at_length("VACUUM ANALYZE weir_notifications_notification")
        ours, update = partial(inbox.mark_all_read, user), partial(_update, user)
        figures += [
            Figure(name=f"mark_all_read_{rows}_ms", value=_rolled_back(ours, ROUNDS), unit="ms"),
            Figure(name=f"update_{rows}_ms", value=_rolled_back(update, 1), unit="ms"),
        ]
    return [*figures, *_settle(user, rows)]


def _update(user: int) -> int:
    """Call Django's own `update(read_at=now)`, which counts nothing."""
    return QuerySet.update(Notification.objects.filter(user_id=user, read_at=None), read_at=timezone.now())


def _rolled_back(call: Callable[[], int], rounds: int) -> float:
    """Return the median time of a call, in milliseconds."""
    times_ms = []
    for _ in range(rounds):
        with transaction.atomic():
            began_at = time.perf_counter()
            call()
            times_ms.append((time.perf_counter() - began_at) * 1_000)
            transaction.set_rollback(True)
    return median(times_ms)


def _settle(user: int, rows: int) -> list[Figure]:
    inbox.mark_all_read(user)
    times_ms = []
    for _ in range(READS):
        began_at = time.perf_counter()
        if inbox.unread_count(user):
            raise AssertionError("a read mark does not cover all")
        times_ms.append((time.perf_counter() - began_at) * 1_000)
    began_at = time.perf_counter()
    settled = read_marks.settle()
    took_s = time.perf_counter() - began_at
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM weir_notifications_notification WHERE user_id = %s AND read_at IS NULL", [user]
        )
        [left] = cursor.fetchone()
    if (settled, left) != (rows, 0):
        raise AssertionError(f"{settled} of {rows} rows were settled, and {left} are left")
    return [
        Figure(name="unread_count_beside_a_read_mark_p50_ms", value=median(times_ms), unit="ms"),
        Figure(name="unread_count_beside_a_read_mark_max_ms", value=max(times_ms), unit="ms"),
        Figure(name="settled_per_s", value=rows / took_s, unit="1/s"),
    ]
