"""The Celery task of digests."""

from celery import shared_task

from weir.digests import gathering
from weir.workers import task_names
from weir.workers.pools import serial

GATHERING_S = 5.0  # how long one run gathers; the next run, ten seconds later, does the rest


@shared_task(name=task_names.GATHER_DIGESTS, **task_names.OPTIONS)
@serial.run_in(serial.MAINTENANCE)
def gather_digests() -> None:
    """Queue a digest for each user who has notifications that are due. May run twice, and may be killed anywhere."""
    gathering.gather_due(GATHERING_S)
