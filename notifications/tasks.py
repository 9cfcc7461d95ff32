"""The Celery tasks of `notifications`. Only this module of the package imports Celery."""

from celery import shared_task

from weir.notifications import flush, reconcile
from weir.notifications.inbox import read_marks
from weir.notifications.maintenance import forgetting
from weir.notifications.removal import cap, expiry, retention
from weir.redis_link import outages
from weir.workers import task_names
from weir.workers.pools import serial
from weir.workers.tracing import spans

# How long each kind of work goes on in one run. The next run does the rest; for the first four it comes five seconds
# later.
FORGETTING_S, SETTLING_S = 1.5, 3.0
EXPIRING_S, TRIMMING_S = 2.0, 2.0
PURGING_S = 20.0  # for each table that is purged; limited because reconciliation may wait for the process meanwhile


@shared_task(name=task_names.FLUSH_UNREAD, **task_names.OPTIONS)
@serial.run_in(serial.FLUSH)
def flush_unread() -> None:
    """Move deltas from Redis to PostgreSQL. May run twice, even at the same time, and may be killed at any point."""
    with spans.span("flush unread"), outages.waited_out("unread_not_flushed"):
        flush.flush_sealed()


@shared_task(name=task_names.RECONCILE_UNREAD, **task_names.OPTIONS)
@serial.run_in(serial.MAINTENANCE)
def reconcile_unread() -> None:
    """Find unread numbers that are wrong, and repair them. Only one process does so at a time."""
    with spans.span("reconcile unread"), outages.waited_out("unread_not_reconciled"):
        reconcile.run_pass()


@shared_task(name=task_names.SETTLE_UNREAD, **task_names.OPTIONS)
@serial.run_in(serial.MAINTENANCE)
def settle_unread() -> None:
    """Remove what is left of forgotten users; then, even if that failed, set `read_at` of rows that read marks cover.

    May be killed at any point.
    """
    try:
        with outages.waited_out("users_not_forgotten"):
            forgetting.finish(FORGETTING_S)
    finally:
        read_marks.settle(SETTLING_S)


@shared_task(name=task_names.EXPIRE_NOTIFICATIONS, **task_names.OPTIONS)
@serial.run_in(serial.MAINTENANCE)
def expire_notifications() -> None:
    """Delete notifications that have expired, and unread ones beyond the cap. May be killed at any point."""
    expiry.delete_expired(EXPIRING_S)
    cap.trim(TRIMMING_S)


@shared_task(name=task_names.PURGE_NOTIFICATIONS, **task_names.OPTIONS)
@serial.run_in(serial.MAINTENANCE)
def purge_notifications() -> None:
    """Delete notifications that were read long ago. May be killed at any point."""
    retention.purge(PURGING_S)
