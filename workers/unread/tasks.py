"""The Celery tasks of `notifications`, which does not use Celery itself."""

from celery import shared_task

from notifications import flush, outages, reconcile, retention
from workers import task_names


@shared_task(name=task_names.FLUSH_UNREAD)
def flush_unread() -> None:
    """Move sealed deltas from Redis to PostgreSQL; safe to run twice, at once, or killed anywhere."""
    with outages.waited_out("unread_not_flushed"):
        flush.flush_sealed()


@shared_task(name=task_names.RECONCILE_UNREAD)
def reconcile_unread() -> None:
    """Find unread numbers that are wrong, and repair them; only one process does so at a time."""
    with outages.waited_out("unread_not_reconciled"):
        reconcile.run_pass()


@shared_task(name=task_names.PURGE_NOTIFICATIONS)
def purge_notifications() -> None:
    """Delete notifications that were read long ago; may be killed anywhere."""
    retention.purge()
