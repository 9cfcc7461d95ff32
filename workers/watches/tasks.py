"""The Celery task of the watches."""

from celery import shared_task

from weir.workers import task_names
from weir.workers.pools import serial
from weir.workers.watches import asking, judging


@shared_task(name=task_names.KEEP_WATCH, **task_names.OPTIONS)
@serial.run_in(serial.WATCH)
def keep_watch() -> None:
    """Ask for the pages that are due, and judge what fetches of watches brought; safe to run twice or together."""
    asking.ask_due()
    judging.judge_ended()
