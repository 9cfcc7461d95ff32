"""The turns of Celery workers: a step of the worker, whose timer belongs to the loop that hands tasks to the pool.

A worker that stops waits for the broker and for its pool, and its loop turns no more. Then a thread makes the turns: so
a worker that ends what it holds is told from one that was killed meanwhile.
"""

import threading
from typing import Any

from celery import bootsteps
from celery.signals import worker_shutdown
from celery.worker import state
from django.db import connection

from workers.processes import presence

KINDS = {"fetch": "fetcher", "mail": "mailer", "ticks": "ticks"}  # by the queue; all others are workers


class Turning(bootsteps.StartStopStep):
    """Notes the turns of a worker's loop, until a fetcher in this process notes those of its own."""

    requires = ("celery.worker.components:Timer", "celery.worker.components:Pool")

    _timer: Any = None

    def start(self, worker: Any) -> None:  # noqa: ANN401  Celery's own have no types
        """Make the worker known. Its pool has forked its children: they do not have this connection."""
        queues = worker.app.amqp.queues.consume_from
        kind = next((kind for queue, kind in KINDS.items() if queue in queues), "worker")
        known = presence.begin(kind, worker.hostname)
        known.turn(holds=0)
        self._timer = worker.timer.call_repeatedly(presence.TURN_EVERY_S, _turn, (known,))

    def close(self, _worker: Any) -> None:  # noqa: ANN401  as above
        """Say that the worker stops. Called before any step does, which wait for the broker and for the pool."""
        if self._timer is not None:
            self._timer.cancel()
        if known := presence.of_this_process():
            known.stop(holds=len(state.active_requests))
            if not known.is_handed_over:
                threading.Thread(target=_turn_until_the_end, args=(known,), name="turning", daemon=True).start()


_ends = threading.Event()


def _turn(known: presence.Presence) -> None:
    if known.is_handed_over:
        connection.close()  # of this thread, which needs it no more
    else:
        known.turn(holds=len(state.active_requests))


def _turn_until_the_end(known: presence.Presence) -> None:
    while not _ends.wait(presence.TURN_EVERY_S):
        known.turn(holds=len(state.active_requests))
    connection.close()


@worker_shutdown.connect
def _end(**_signal: object) -> None:
    _ends.set()
    if known := presence.of_this_process():
        known.end()
