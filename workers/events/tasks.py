"""The Celery task of the event log."""

from celery import shared_task

from weir.workers import task_names
from weir.workers.events import log
from weir.workers.pools import serial


@shared_task(name=task_names.KEEP_EVENTS, **task_names.OPTIONS)
@serial.run_in(serial.MAINTENANCE)
def keep() -> None:
    """Begin or cease to keep events as WEIR_EVENT_RETENTION says; delete old ones. Safe to run twice or together."""
    log.keep()
