"""The queues of ticks: periodic tasks, and messages that wake one of them early. Each run does all that is due.

So a tick is superfluous if others wait in its queue, because they do all that is due then. The processes of a queue may
be away for hours, or slower than its ticks come: the queue stays short, and old ticks do not hold up new ones.

Celery would let a message expire by the clocks of two hosts. If these differ by more than a tick's period, every tick
would expire; and no host's clock decides anything in Weir.
"""

from typing import Final

from weir.workers import broker_link, task_names

# Users' tasks are in `default`, and may be routed here as well.
QUEUES: Final = frozenset({"weir.ticks", "weir.maintenance", "weir.mail"})
MOST_WAITING: Final = 40
MOST_WAKING: Final = 20  # less, so that messages for a few sites never keep out the tick that sees to all


def is_superfluous(task_name: str, queue: str, most: int) -> bool:
    """Return whether it is a tick, and at least `most` messages wait in its queue. Raises BrokerUnreachable."""
    return task_name in task_names.TICKS and queue in QUEUES and broker_link.waiting_in(queue) >= most
