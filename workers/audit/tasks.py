"""The Celery task of the audit trail."""

from celery import shared_task

from weir.workers import lanes, task_names
from weir.workers.audit import retention


@shared_task(name=task_names.PURGE_AUDIT, **task_names.OPTIONS)
@lanes.in_lane(lanes.MAINTENANCE)
def purge() -> None:
    """Delete old entries; safe to run twice, at once, or killed anywhere."""
    retention.purge()
