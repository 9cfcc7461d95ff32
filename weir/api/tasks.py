"""The Celery task of the API."""

from celery import shared_task

from weir.api import idempotency
from weir.workers import lanes, task_names


@shared_task(name=task_names.PURGE_API, **task_names.OPTIONS)
@lanes.in_lane(lanes.MAINTENANCE)
def purge() -> None:
    """Delete kept answers that are old; safe to run twice, at once, or killed anywhere."""
    idempotency.purge()
