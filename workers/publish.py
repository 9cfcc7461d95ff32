"""Sends Celery messages, and counts those that wait. A broker that cannot be reached is logged, and never raised.

A message is a hint: the sweep finds the work of a message that was not sent or was lost, so that only costs time. All
messages of Weir are sent by this module.
"""

from typing import Any

import structlog
from celery import current_app
from kombu.exceptions import OperationalError

log = structlog.get_logger(__name__)


def publish(task_name: str, *arguments: object) -> bool:
    """Send the task by its name; returns False (and logs why) when the broker cannot be reached."""
    return _sent(task_name, args=arguments)


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


def waiting(task_name: str) -> int:
    """Return how many messages wait in the task's queue for a worker; 0 when the broker cannot be reached."""
    app: Any = current_app
    queue = app.amqp.router.route({}, task_name)["queue"]

    def count(*, channel: object) -> int:
        messages: int = queue(channel).queue_declare().message_count
        return messages

    try:
        with app.pool.acquire(block=True) as connection:
            messages: int = connection.autoretry(count, max_retries=1, interval_start=0)()[0]
    except (OperationalError, OSError) as error:
        log.warning("broker_unreachable", task=task_name, error=str(error))
        return 0
    return messages


def _sent(task_name: str, **message: Any) -> bool:
    app: Any = current_app
    try:
        app.send_task(task_name, **message)
    except (OperationalError, OSError) as error:
        log.warning("broker_unreachable", task=task_name, error=str(error))
        return False
    return True
