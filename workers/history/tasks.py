"""The Celery task of the history."""

from celery import shared_task

from weir.workers import task_names
from weir.workers.history import rollup
from weir.workers.pools import serial


@shared_task(name=task_names.ROLL_UP, **task_names.OPTIONS)
@serial.run_in(serial.MAINTENANCE)
def roll_up() -> None:
    """Roll up the minutes that are due, and delete old ones; safe to run twice, concurrently, or killed anywhere."""
    rollup.roll_up()
    rollup.purge()
