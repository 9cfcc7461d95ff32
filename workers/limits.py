"""Limits that a team has set hold for its own tasks: Weir's end by themselves, and one may be sending an e-mail.

Celery has each limit of time in two places. What sends a message writes its own limits of the task into it, and a
worker obeys these; where there are none, it has its own. So Weir's messages say nothing, and its workers know better.
Of a rate, Weir's tasks have none: a worker would keep their messages, and with dispatch delay what all sites wait for.

A supervisor sends SIGTERM to the whole process group, which would cut off what the processes of a pool run. Weir's
tasks are finished. A team's own are ended by it, as by `revoke(terminate=True)`, which sends the same.
"""

import os
import signal
from typing import Any, Final

from celery.signals import (
    before_task_publish,
    celeryd_after_setup,
    task_postrun,
    task_prerun,
    worker_init,
    worker_process_init,
)

from weir.conf import settings
from weir.workers import schedule, task_names

_before: list[Any] = []  # what SIGTERM does to a process of a pool while it runs no task of Weir's
_parent: list[int] = []  # the process id of a worker that serves queues of Weir's and others
LONGEST_S: Final = 3600.0  # more than any task of Weir's takes, but for the mail server's reply to an e-mail


def bring_own_limits() -> None:
    """Have the messages of Weir's tasks that this process sends, and those tasks where it runs them, go by Weir's."""
    before_task_publish.connect(_say_nothing)
    worker_init.connect(_know_better)  # before it has computed rates


def _say_nothing(sender: str, headers: dict[str, Any], **_signal: object) -> None:
    if sender in task_names.OF_WEIR:
        headers["timelimit"] = [None, None]


def _know_better(sender: Any, **_signal: object) -> None:  # noqa: ANN401  Celery's worker
    """Set limits of time only where the worker, or an annotation of all tasks, has some: each costs it a timer."""
    longest_s = LONGEST_S + settings.WEIR_MAIL_REPLY_TIMEOUT
    for task in (sender.app.tasks[name] for name in task_names.OF_WEIR if name in sender.app.tasks):
        task.rate_limit = None
        for option, value in task_names.OPTIONS.items():  # an annotation of all tasks may say otherwise
            setattr(task, option, value)
        if sender.time_limit or sender.soft_time_limit or task.time_limit or task.soft_time_limit:
            task.time_limit = task.soft_time_limit = longest_s


def finish_own_tasks() -> None:
    """Have the processes of a pool finish a task of Weir's that they run when SIGTERM comes to them.

    Where a worker serves Weir's queues alone, they are deaf to it from the start.
    """
    celeryd_after_setup.connect(_begin_worker)


def finish_each_task() -> None:
    """Have the processes of a pool finish any task that they run when SIGTERM comes to them."""
    worker_process_init.connect(_ignore_sigterm)


def _begin_worker(instance: Any, **_signal: object) -> None:  # noqa: ANN401  Celery's worker; its children inherit this
    served = set(instance.app.amqp.queues.consume_from)
    if served <= set(schedule.QUEUES):
        worker_process_init.connect(_ignore_sigterm)
    elif not served.isdisjoint(schedule.QUEUES):
        _parent.append(os.getpid())
        task_prerun.connect(_be_deaf)
        task_postrun.connect(_hear_again)


def _ignore_sigterm(**_signal: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _be_deaf(task: Any, **_signal: object) -> None:  # noqa: ANN401  Celery's own have no types
    if _is_own(task):
        _before.append(signal.signal(signal.SIGTERM, signal.SIG_IGN))


def _hear_again(task: Any, **_signal: object) -> None:  # noqa: ANN401  as above
    if _is_own(task) and _before:
        signal.signal(signal.SIGTERM, _before.pop())


def _is_own(task: Any) -> bool:  # noqa: ANN401  as above
    """Tell whether the task is Weir's, and run by a process of a pool: a worker itself stops in order at SIGTERM."""
    return task.name in task_names.OF_WEIR and not task.request.is_eager and os.getpid() not in _parent
