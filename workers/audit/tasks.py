"""The Celery task of the audit trail."""

from celery import shared_task

from workers import task_names
from workers.audit import retention


@shared_task(name=task_names.PURGE_AUDIT)
def purge() -> None:
    """Delete old entries; safe to run twice, at once, or killed anywhere."""
    retention.purge()
