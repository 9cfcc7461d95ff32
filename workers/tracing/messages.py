"""The correlation id in the messages of tasks: the sender writes its id into a header, and the task uses the same id.

Weir's own tasks and their messages have no correlation id: each run does all that is due, whoever asked for it. If the
message of a user's task has none, for example because beat has sent it, the task's own id is the correlation id.
"""

from typing import Any

from celery.signals import before_task_publish, task_postrun, task_prerun

from weir.workers import task_names
from weir.workers.tracing import correlation

HEADER = "weir_correlation_id"  # the name `correlation_id` is taken: Celery has the id of the task there


def carry_correlation_ids() -> None:
    """Write the id into messages of users' tasks that this process sends, and bind it in users' tasks that it runs."""
    before_task_publish.connect(_name_sender)
    task_prerun.connect(_bind)
    task_postrun.connect(_unbind)


def _name_sender(sender: str, headers: dict[str, Any], **_signal: object) -> None:
    # A message that is sent again, such as the message of a postponed task, keeps its id.
    if sender not in task_names.OF_WEIR and HEADER not in headers and (name := correlation.current()):
        headers[HEADER] = name


def _bind(task_id: str, task: Any, **_signal: object) -> None:  # noqa: ANN401  Celery's own have no types
    if task.request.is_eager:
        return  # the task runs within its caller
    if task.name in task_names.OF_WEIR:
        correlation.bind("")
    else:
        correlation.bind(correlation.safe(task.request.get(HEADER)) or correlation.safe(task_id))


def _unbind(task: Any, **_signal: object) -> None:  # noqa: ANN401  as above
    if not task.request.is_eager:
        correlation.bind("")
