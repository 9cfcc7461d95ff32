"""The Celery task that tells operators."""

from celery import shared_task

from weir.workers import task_names
from weir.workers.overview import telling
from weir.workers.pools import serial


@shared_task(name=task_names.TELL_OPERATORS, **task_names.OPTIONS)
@serial.run_in(serial.MAINTENANCE)
def tell_operators() -> None:
    """Tell operators what began to need somebody; safe to run twice, concurrently, or killed anywhere."""
    telling.tell()
