"""Sends Celery messages, and counts those that wait. A broker that cannot be reached is logged, and never raised.

A message is a hint: the sweep finds the work of a message that was not sent or was lost, so that only costs time. All
messages of Weir are sent by this module, but those of beat. No call waits for longer than 1.5 s (`broker_link`).
"""

from typing import Any

import structlog
from celery import current_app

from weir.workers import broker_link, ticks

log = structlog.get_logger(__name__)


def publish(task_name: str, *arguments: object) -> bool:
    """Send the task by its name; returns False (and logs why) when the broker cannot be reached.

    A tick is not sent where enough others wait, which do its work (`ticks`).
    """
    return _sent(task_name, most_waiting=ticks.MOST_WAKING, args=arguments)


def publish_signature(signature: dict[str, Any]) -> bool:
    """Send the task that a Celery signature describes, with all its options; returns False as `publish` does.

    The task is sent by its name, so this process need not have its code.
    """
    return _sent(
        signature["task"],
        args=signature["args"],
        kwargs=signature["kwargs"],
        add_to_parent=False,
        **signature["options"],
    )


def waiting(task_name: str) -> int | None:
    """Return how many messages wait in the task's queue for a worker; None when the broker cannot be reached."""
    try:
        return broker_link.waiting(task_name)
    except broker_link.Unreachable as error:
        log.warning("broker_unreachable", task=task_name, error=str(error))
        return None


def _sent(task_name: str, *, most_waiting: int | None = None, **message: Any) -> bool:
    app: Any = current_app
    try:
        queue = broker_link.queue_of(task_name)
        if most_waiting is not None and ticks.is_superfluous(task_name, queue, most_waiting):
            return True
        with broker_link.producer() as producer:
            app.send_task(task_name, producer=producer, **message)
    except broker_link.Unreachable as error:
        log.warning("broker_unreachable", task=task_name, error=str(error))
        return False
    return True
