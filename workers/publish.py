"""Sends Celery messages, and counts those that wait. If the broker cannot be reached, this is logged and not raised.

A message is a hint: the sweep finds the work of a message that was not sent or was lost, so a lost message only costs
time. This module sends all messages of Weir except those of beat. If the broker is away, no call waits for longer than
1.5 s (`broker_link`).

If CELERY_TASK_ALWAYS_EAGER is set, there is no broker, and no worker that takes messages. Then `call` runs a user's
task itself, and `publish` sends no ticks.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from weir.logs.loggers import get_logger
from weir.workers import broker_link, task_names, ticks

log = get_logger(__name__)
Taker = Callable[[str, Sequence[object], Mapping[str, object]], None]
_takers: list[Taker] = []  # the last one takes the messages

# Options of Weir's own messages, which a project's settings do not change.
OF_OWN: Final[dict[str, Any]] = {"ignore_result": True, "serializer": "json"}


def publish(task_name: str, *arguments: object, unless: Callable[[], bool] | None = None) -> bool:
    """Send the task by its name; if the broker cannot be reached, log why and return False.

    A tick is not sent if enough ticks already wait in its queue, which do its work (`ticks`). No message is sent if
    `unless` returns True: an earlier message does the work. `unless` is not called if the broker would not be asked.
    """
    if _takers:
        _takers[-1](task_name, arguments, {})
        return True
    if (task_name in task_names.TICKS and _is_eager()) or (unless and unless()):
        return True
    own = OF_OWN if task_name in task_names.OF_WEIR else {}
    return _sent(task_name, most_waiting=ticks.MOST_WAKING, args=arguments, **own)


def call(task_name: str, *arguments: object, headers: Mapping[str, object] | None = None) -> bool:
    """Make a worker run a user's task, as `publish` does. If CELERY_TASK_ALWAYS_EAGER is set, run it in this call.

    The message has these headers beside Celery's own.

    A task that runs in this call raises its error if CELERY_TASK_EAGER_PROPAGATES is set, as in Celery. This call then
    also raises NotRegistered if no app has a task of this name.
    """
    if _takers:
        return publish(task_name, *arguments)
    if not _is_eager():
        return _sent(task_name, args=arguments, headers=headers)
    run_here(task_name, arguments)
    return True


def run_here(
    task_name: str,
    arguments: Sequence[object],
    options: Mapping[str, object] | None = None,
    *,
    throw: bool | None = None,
) -> None:
    """Run the task in this process, as Celery's `apply` does, with its `throw`. Raises Celery's NotRegistered."""
    app = broker_link.app()
    if task_name not in app.tasks:  # web code may not have imported the task
        app.loader.import_default_modules()
    app.tasks[task_name].apply(args=arguments, kwargs=options, throw=throw)


def publish_signature(signature: dict[str, Any]) -> bool:
    """Send the task that a Celery signature describes, with all its options; return False as `publish` does.

    The task is sent by its name, so this process need not have its code.
    """
    if _takers:
        _takers[-1](signature["task"], signature["args"], signature["kwargs"])
        return True
    return _sent(
        signature["task"],
        args=signature["args"],
        kwargs=signature["kwargs"],
        add_to_parent=False,
        **signature["options"],
    )


def waiting(task_name: str) -> int | None:
    """Return how many messages wait in the task's queue for a worker; None when the broker cannot be reached."""
    if _takers:
        return 0
    try:
        return broker_link.waiting(task_name)
    except broker_link.BrokerUnreachable as error:
        log.warning("broker_unreachable", task=task_name, error=str(error))
        return None


@contextmanager
def taken_by(taker: Taker) -> Iterator[None]:
    """For tests: pass the names and arguments of all messages to `taker` instead of sending them to the broker."""
    _takers.append(taker)
    try:
        yield
    finally:
        _takers.remove(taker)


def _is_eager() -> bool:
    return bool(broker_link.app().conf.task_always_eager)


def _sent(task_name: str, *, most_waiting: int | None = None, **message: Any) -> bool:
    app = broker_link.app()
    try:
        queue = broker_link.queue_of(task_name)
        if most_waiting is not None and ticks.is_superfluous(task_name, queue, most_waiting):
            return True
        with broker_link.producer() as producer:
            app.send_task(task_name, producer=producer, **{"retry": False, **message})
    except broker_link.BrokerUnreachable as error:
        log.warning("broker_unreachable", task=task_name, error=str(error))
        return False
    return True
