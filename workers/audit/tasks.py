"""The Celery task of the audit trail."""

from celery import shared_task

from weir.workers import task_names
from weir.workers.audit import retention
from weir.workers.pools import serial


@shared_task(name=task_names.PURGE_AUDIT, **task_names.OPTIONS)
@serial.run_in(serial.MAINTENANCE)
def purge() -> None:
    """Delete old entries; safe to run twice, concurrently, or killed anywhere."""
    retention.purge()
