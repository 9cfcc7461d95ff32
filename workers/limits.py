"""A project's time and rate limits apply to its own tasks only, not to Weir's.

Weir's tasks end by themselves, and must not be killed, for example while they send an e-mail. Celery has each time
limit in two places. The sender of a message writes its own limits of the task into the message, and a worker obeys
them. If the message has none, the worker uses its own. So Weir's messages have no time limits, and Weir's workers set
them. Weir's tasks have no rate limit: a worker would hold back their messages, and a late dispatch would delay all
sites.

A supervisor sends SIGTERM to the whole process group, and so to the processes of a pool, whose tasks would be cut off.
These processes finish a task of Weir's first. SIGTERM ends a project's own tasks, as does `revoke(terminate=True)`,
which sends the same signal.
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

_before: list[Any] = []  # in a process of a pool, the handler of SIGTERM before the present task of Weir's
_parent: list[int] = []  # the process id of a worker that serves queues of Weir's and other queues
LONGEST_S: Final = 3600.0  # longer than any task of Weir's takes, not counting the wait for a mail server's reply


def bring_own_limits() -> None:
    """Apply Weir's limits to the messages of Weir's tasks that this process sends, and to the tasks that it runs."""
    before_task_publish.connect(_say_nothing)
    worker_init.connect(_know_better)  # Celery sends this signal before the worker computes rates


def _say_nothing(sender: str, headers: dict[str, Any], **_signal: object) -> None:
    if sender in task_names.OF_WEIR:
        headers["timelimit"] = [None, None]


def _know_better(sender: Any, **_signal: object) -> None:  # noqa: ANN401  Celery's worker
    """Set time limits only if the worker, or an annotation of the tasks, has some: each limit costs a timer."""
    longest_s = LONGEST_S + settings.WEIR_MAIL_REPLY_TIMEOUT
    for task in (sender.app.tasks[name] for name in task_names.OF_WEIR if name in sender.app.tasks):
        task.rate_limit = None
        for option, value in task_names.OPTIONS.items():  # an annotation of all tasks may have changed it
            setattr(task, option, value)
        if sender.time_limit or sender.soft_time_limit or task.time_limit or task.soft_time_limit:
            task.time_limit = task.soft_time_limit = longest_s


def finish_own_tasks() -> None:
    """Make the processes of a pool finish a task of Weir's that they run when they get SIGTERM.

    If the worker serves only Weir's queues, its processes always ignore SIGTERM.
    """
    celeryd_after_setup.connect(_begin_worker)


def finish_each_task() -> None:
    """Make the processes of a pool always ignore SIGTERM, so that they finish any task."""
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
    """Return whether the task is Weir's, and a pool's process runs it. The worker itself stops in order at SIGTERM."""
    return task.name in task_names.OF_WEIR and not task.request.is_eager and os.getpid() not in _parent
