"""The heartbeat's task, and what all worker processes do with signals. Other packages have their own `tasks.py`."""

import signal
from typing import Any, Final

from celery import shared_task
from celery.signals import celeryd_after_setup, worker_process_init, worker_process_shutdown
from django.conf import settings

from ratelimit.held import process as held
from workers import heartbeats, task_names


@shared_task(name=task_names.HEARTBEAT)
def heartbeat(queue: str) -> None:
    """Note that a worker of this queue has run it: so beat, the broker, a worker and PostgreSQL work."""
    heartbeats.beat(queue)


LONGEST_S: Final = 3600.0  # more than any task of Weir's takes, but for the mail server's reply to an e-mail


@celeryd_after_setup.connect
def _bring_own_limits(instance: Any, **_kwargs: Any) -> None:  # noqa: ANN401  Celery's worker
    """Have the limits that a team has set hold for its own tasks: Weir's end by themselves, and one may be sending.

    Each limit costs the worker a timer. So they have some only where the worker, or an annotation of all tasks, has.
    """
    longest_s = LONGEST_S + settings.WEIR_MAIL_REPLY_TIMEOUT
    for task in (instance.app.tasks[name] for name in task_names.OF_WEIR if name in instance.app.tasks):
        if instance.time_limit or instance.soft_time_limit or task.time_limit or task.soft_time_limit:
            task.time_limit = task.soft_time_limit = longest_s


@worker_process_init.connect
def _finish_the_task(**_kwargs: Any) -> None:
    """Ignore SIGTERM: a supervisor sends it to the whole process group, and it would cut a running task off."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


@worker_process_shutdown.connect
def _give_runs_back(**_kwargs: Any) -> None:
    """Give back the starts that no task has used: a process of the pool ends without Python's exit handlers."""
    held.close()
