"""The heartbeat's task, and what all worker processes do with signals. Other packages have their own `tasks.py`."""

import signal
from typing import Any

from celery import shared_task
from celery.signals import worker_process_init

from workers import heartbeats, task_names


@shared_task(name=task_names.HEARTBEAT)
def heartbeat(queue: str) -> None:
    """Note that a worker of this queue has run it: so beat, the broker, a worker and PostgreSQL work."""
    heartbeats.beat(queue)


@worker_process_init.connect
def _finish_the_task(**_kwargs: Any) -> None:
    """Ignore SIGTERM: a supervisor sends it to the whole process group, and it would cut a running task off."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
