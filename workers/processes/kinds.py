"""The kinds of processes. A worker has a kind for each of Weir's queues that it consumes. All functions are pure."""

from collections.abc import Iterable
from typing import Final

BEAT: Final = "beat"
WORKER: Final = "worker"  # the kind for any queue that is not Weir's
# A process of several kinds is named in this order.
KINDS: Final = {
    "weir.ticks": "ticks",
    "weir.maintenance": "maintenance",
    "weir.fetch": "fetcher",
    "weir.mail": "mailer",
}


def of_queue(queue: str) -> str:
    """Return the kind of the workers that consume the queue."""
    return KINDS.get(queue, WORKER)


def of_queues(queues: Iterable[str]) -> str:
    """Return the kind of a worker of these queues; several kinds are joined, as in `ticks+mailer`."""
    found = set(map(of_queue, queues))
    return "+".join(kind for kind in (*KINDS.values(), WORKER) if kind in found)


def split(kind: str) -> tuple[str, ...]:
    """Return each kind in a joined one."""
    return tuple(kind.split("+"))
