"""Sends Celery messages, and counts those that wait. A broker that cannot be reached is logged, and never raised.

A message is a hint: the sweep finds the work of a message that was not sent or was lost, so a lost one only costs time.
This module sends all messages of Weir except those of beat. No call waits for longer than 1.5 s (`broker_link`).

If CELERY_TASK_ALWAYS_EAGER is set, there is no broker, and no worker that would take a message: a user's task is run
in the call itself, and a tick is not sent.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from weir.logs.loggers import get_logger
from weir.workers import broker_link, task_names, ticks

log = get_logger(__name__)
Taker = Callable[[str, Sequence[object], Mapping[str, object]], None]
_takers: list[Taker] = []  # the last one takes what is sent

# Options of Weir's own messages, whatever a project has set for its own.
OF_OWN: Final[dict[str, Any]] = {"ignore_result": True, "serializer": "json"}


def publish(task_name: str, *arguments: object, unless: Callable[[], bool] | None = None) -> bool:
    """Send the task by its name; returns False (and logs why) when the broker cannot be reached.

    A tick is not sent if enough others wait, which do its work (`ticks`), nor if `unless` says that an earlier one
    does: that is asked only if the broker would be.
    """
    if _takers:
        _takers[-1](task_name, arguments, {})
        return True
    if (task_name in task_names.TICKS and _is_eager()) or (unless and unless()):
        return True
    own = OF_OWN if task_name in task_names.OF_WEIR else {}
    return _sent(task_name, most_waiting=ticks.MOST_WAKING, args=arguments, **own)


def call(task_name: str, *arguments: object) -> bool:
    """Run a user's task: by a worker, as `publish` does, or in this call if CELERY_TASK_ALWAYS_EAGER is set.

    In this call, the task's error is raised if CELERY_TASK_EAGER_PROPAGATES is set, as by Celery; and NotRegistered
    if no app has a task of this name.
    """
    if _takers or not _is_eager():
        return publish(task_name, *arguments)
    run_here(task_name, arguments)
    return True


def run_here(
    task_name: str,
    arguments: Sequence[object],
    options: Mapping[str, object] | None = None,
    *,
    throw: bool | None = None,
) -> None:
    """Run the task in this process, as Celery's `apply`; `throw` as there. Raises celery's NotRegistered."""
    app = broker_link.app()
    if task_name not in app.tasks:  # web code need not have imported it
        app.loader.import_default_modules()
    app.tasks[task_name].apply(args=arguments, kwargs=options, throw=throw)


def publish_signature(signature: dict[str, Any]) -> bool:
    """Send the task that a Celery signature describes, with all its options; returns False as `publish` does.

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
    """Give `taker` the names and arguments of what this process sends, in place of the broker: in tests."""
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
