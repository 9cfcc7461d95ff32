"""The heartbeat's task, and what all worker processes do with signals. Other packages have their own `tasks.py`."""

import signal
from typing import Any

from celery import shared_task
from celery.signals import worker_process_init, worker_process_shutdown

from weir.ratelimit.held import process as held
from weir.workers import heartbeats, task_names


@shared_task(name=task_names.HEARTBEAT)
def heartbeat(queue: str) -> None:
    """Note that a worker of this queue has run it: so beat, the broker, a worker and PostgreSQL work."""
    heartbeats.beat(queue)


@worker_process_init.connect
def _finish_the_task(**_kwargs: Any) -> None:
    """Ignore SIGTERM: a supervisor sends it to the whole process group, and it would cut a running task off."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


@worker_process_shutdown.connect
def _give_runs_back(**_kwargs: Any) -> None:
    """Give back the starts that no task has used: a process of the pool ends without Python's exit handlers."""
    held.close()
