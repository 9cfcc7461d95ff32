"""The tasks of heartbeats and of the purge of slots, and what the processes of a pool do when they end."""

from datetime import timedelta
from typing import Any, Final

from celery import shared_task
from celery.signals import worker_process_shutdown

from weir.conf import settings
from weir.ratelimit import slots
from weir.ratelimit.held import process as held
from weir.workers import heartbeats, task_names
from weir.workers.pools import serial
from weir.workers.processes import status

PURGING_S: Final = 5.0  # seconds in each run, every ten minutes


@shared_task(name=task_names.HEARTBEAT, **task_names.OPTIONS)
def heartbeat(queue: str) -> None:
    """Record that a worker of this queue has run this task, so beat, the broker, the worker and PostgreSQL work."""
    heartbeats.beat(queue)


@shared_task(name=task_names.PURGE_SLOTS, **task_names.OPTIONS)
@serial.run_in(serial.MAINTENANCE)
def purge_slots() -> None:
    """Delete old slots, and the rows of processes that have ended; may be killed anywhere."""
    slots.purge(timedelta(seconds=settings.WEIR_SLOT_RETENTION), within_s=PURGING_S)
    status.purge()


@worker_process_shutdown.connect
def _give_runs_back(**_kwargs: Any) -> None:
    """Give back the slots that no task has used. A pool's process ends without Python's exit handlers."""
    held.close()
