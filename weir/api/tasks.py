"""The Celery task of the API."""

from celery import shared_task

from weir.api import idempotency
from weir.workers import task_names
from weir.workers.pools import serial


@shared_task(name=task_names.PURGE_API, **task_names.OPTIONS)
@serial.run_in(serial.MAINTENANCE)
def purge() -> None:
    """Delete old answers. The task may run twice, even at the same time, and may be killed at any point."""
    idempotency.purge()
