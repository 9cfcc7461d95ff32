"""The Celery tasks of `notifications`: the one module of this room that knows Celery."""

from celery import shared_task

from weir.notifications import flush, reconcile
from weir.notifications.inbox import read_marks
from weir.notifications.maintenance import forgetting
from weir.notifications.removal import cap, expiry, retention
from weir.redis_link import outages
from weir.workers import task_names
from weir.workers.pools import serial
from weir.workers.tracing import spans

# How long they go on; what is left is for the next run, which for the first four comes after five seconds.
FORGETTING_S, SETTLING_S = 1.5, 3.0
EXPIRING_S, TRIMMING_S = 2.0, 2.0
PURGING_S = 20.0  # for notifications, and for notes of epochs: reconciliation may wait for the process meanwhile


@shared_task(name=task_names.FLUSH_UNREAD, **task_names.OPTIONS)
@serial.run_in(serial.FLUSH)
def flush_unread() -> None:
    """Move sealed deltas from Redis to PostgreSQL; safe to run twice, at once, or killed anywhere."""
    with spans.span("flush unread"), outages.waited_out("unread_not_flushed"):
        flush.flush_sealed()


@shared_task(name=task_names.RECONCILE_UNREAD, **task_names.OPTIONS)
@serial.run_in(serial.MAINTENANCE)
def reconcile_unread() -> None:
    """Find unread numbers that are wrong, and repair them; only one process does so at a time."""
    with spans.span("reconcile unread"), outages.waited_out("unread_not_reconciled"):
        reconcile.run_pass()


@shared_task(name=task_names.SETTLE_UNREAD, **task_names.OPTIONS)
@serial.run_in(serial.MAINTENANCE)
def settle_unread() -> None:
    """Finish what was begun at once for any number of rows: forgotten users, read marks; may be killed anywhere."""
    try:
        with outages.waited_out("users_not_forgotten"):
            forgetting.finish(FORGETTING_S)
    finally:
        read_marks.settle(SETTLING_S)


@shared_task(name=task_names.EXPIRE_NOTIFICATIONS, **task_names.OPTIONS)
@serial.run_in(serial.MAINTENANCE)
def expire_notifications() -> None:
    """Delete notifications that have expired, and unread ones beyond the cap; may be killed anywhere."""
    expiry.delete_expired(EXPIRING_S)
    cap.trim(TRIMMING_S)


@shared_task(name=task_names.PURGE_NOTIFICATIONS, **task_names.OPTIONS)
@serial.run_in(serial.MAINTENANCE)
def purge_notifications() -> None:
    """Delete notifications that were read long ago; may be killed anywhere."""
    retention.purge(PURGING_S)
