"""The queues of ticks: periodic tasks, and messages that wake one of them early. Each run does all that is due.

So a tick is superfluous if enough ticks wait in its queue, because these do everything that is due. Even if the workers
of a queue are away for hours, or slower than its ticks are sent, the queue stays short, and old ticks do not delay new
ones.

Celery's `expires` compares the clocks of two hosts. If these differ by more than a tick's period, every tick would
expire. In Weir, no host's clock decides anything.
"""

from typing import Final

from weir.workers import broker_link, task_names

# Users' tasks are in `default`, but a project may route them to these queues as well.
QUEUES: Final = frozenset({"weir.ticks", "weir.maintenance", "weir.mail"})
MOST_WAITING: Final = 40
MOST_WAKING: Final = 20  # less, so that messages for a few sites never crowd out beat's tick, which serves all sites


def is_superfluous(task_name: str, queue: str, most: int) -> bool:
    """Return whether the task is a tick, and at least `most` messages wait in its queue. Raises BrokerUnreachable."""
    return task_name in task_names.TICKS and queue in QUEUES and broker_link.waiting_in(queue) >= most
