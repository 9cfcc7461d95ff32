"""Limits that a project has set hold for its own tasks: Weir's end by themselves, and one may be sending an e-mail.

Celery has each time limit in two places. The sender of a message writes its own limits of the task into it, and a
worker obeys these; if there are none, the worker uses its own. So Weir's messages have none, and its workers set them.
Weir's tasks have no rate limit: a worker would keep their messages, and a late dispatch would hold up all sites.

A supervisor sends SIGTERM to the whole process group, which would cut off the tasks that the processes of a pool run.
Weir's tasks are finished. A project's own are ended by it, as by `revoke(terminate=True)`, which sends the same signal.
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
LONGEST_S: Final = 3600.0  # more than any task of Weir's takes, except the mail server's reply to an e-mail


def bring_own_limits() -> None:
    """Give Weir's limits to the messages of its tasks that this process sends, and to those tasks if it runs them."""
    before_task_publish.connect(_say_nothing)
    worker_init.connect(_know_better)  # before the worker has computed rates


def _say_nothing(sender: str, headers: dict[str, Any], **_signal: object) -> None:
    if sender in task_names.OF_WEIR:
        headers["timelimit"] = [None, None]


def _know_better(sender: Any, **_signal: object) -> None:  # noqa: ANN401  Celery's worker
    """Set time limits only if the worker, or an annotation of all tasks, has some: each costs it a timer."""
    longest_s = LONGEST_S + settings.WEIR_MAIL_REPLY_TIMEOUT
    for task in (sender.app.tasks[name] for name in task_names.OF_WEIR if name in sender.app.tasks):
        task.rate_limit = None
        for option, value in task_names.OPTIONS.items():  # an annotation of all tasks may say otherwise
            setattr(task, option, value)
        if sender.time_limit or sender.soft_time_limit or task.time_limit or task.soft_time_limit:
            task.time_limit = task.soft_time_limit = longest_s


def finish_own_tasks() -> None:
    """Make the processes of a pool finish a task of Weir's that they run when SIGTERM comes to them.

    If a worker serves only Weir's queues, they ignore SIGTERM from the start.
    """
    celeryd_after_setup.connect(_begin_worker)


def finish_each_task() -> None:
    """Make the processes of a pool finish any task that they run when SIGTERM comes to them."""
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
    """Return whether the task is Weir's, and run by a process of a pool: a worker itself stops in order at SIGTERM."""
    return task.name in task_names.OF_WEIR and not task.request.is_eager and os.getpid() not in _parent
