"""Limits that a team has set hold for its own tasks: Weir's end by themselves, and one may be sending an e-mail.

Celery has each limit of time in two places. What sends a message writes its own limits of the task into it, and a
worker obeys these; where there are none, it has its own. So Weir's messages say nothing, and its workers know better.
Of a rate, Weir's tasks have none: a worker would keep their messages, and with dispatch delay what all sites wait for.
"""

from typing import Any, Final

from celery.signals import before_task_publish, worker_init

from weir.conf import settings
from weir.workers import task_names

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
