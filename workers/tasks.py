"""The heartbeat, and what all worker processes do with signals. Each room has a `tasks.py` of its own."""

import signal
from typing import Any

from celery import shared_task
from celery.signals import worker_process_init

from workers import heartbeats, task_names


@shared_task(name=task_names.HEARTBEAT)
def heartbeat(queue: str) -> None:
    """Note that this queue's workers, the broker, beat and PostgreSQL all work."""
    heartbeats.beat(queue)


@worker_process_init.connect
def _finish_the_task(**_kwargs: Any) -> None:
    """Leave SIGTERM to the parent: a supervisor sends it to the whole group, and it would cut a running task off."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
