"""The heartbeat of Celery workers: a step of the worker, whose timer belongs to the loop that hands tasks to the pool.

While a worker stops and waits for its pool, or waits for a broker that is away, its loop stands still. Such a worker is
not stuck, and a restart would not help. So a thread writes the heartbeat meanwhile.

In a pool of greenlets, each call of the timer would run in a new greenlet, and leave an open session with PostgreSQL.
There the thread writes all heartbeats. It is a greenlet, too, so that code that blocks the greenlets' loop also stops
the heartbeat.
"""

import threading
import time
from typing import Any, Final

from celery import bootsteps
from celery.signals import worker_shutdown
from celery.worker import state
from django.db import connection

from weir.workers import broker_link, schedule, task_names
from weir.workers.processes import kinds, presence

# A worker that has lost its broker waits for it, however long, even if Redis refuses meanwhile (READONLY after a
# fail-over, OOM). The last option has another reason: to raise a lowered prefetch count again, Celery would ask the
# broker from the thread whose task has ended, at the same time as the main loop. With AMQP, one of the two would read
# the other's answer.
WAITS: Final[dict[str, Any]] = {
    "broker_connection_retry_on_startup": True,
    "broker_connection_max_retries": None,
    "broker_channel_error_retry": True,
    "worker_enable_prefetch_count_reduction": False,
}


class WorkerHeartbeat(bootsteps.StartStopStep):
    """Writes the heartbeat of a worker's loop, until a fetcher in this process writes the heartbeat of its own loop."""

    requires = ("celery.worker.components:Timer", "celery.worker.components:Pool")

    _timer: Any = None
    _turned_at = 0.0  # of time.monotonic()
    _stops = False
    _is_green = False

    def create(self, worker: Any) -> None:  # noqa: ANN401  Celery's own have no types
        """Make a worker of Weir's queues wait for a broker that is away; others follow the project's settings."""
        if set(schedule.QUEUES) & set(worker.app.amqp.queues.consume_from):
            worker.app.conf.update(WAITS)

    def start(self, worker: Any) -> None:  # noqa: ANN401  Celery's own have no types
        """Write the worker's row. The pool has already forked its children, so they do not inherit this connection."""
        known = presence.begin(kinds.of_queues(worker.app.amqp.queues.consume_from), worker.hostname)
        known.heartbeat(holds=0)
        _ends.clear()  # an earlier worker in this process, which a test has started, has set it
        self._is_green = worker.pool.is_green
        if not self._is_green:
            self._timer = worker.timer.call_repeatedly(presence.HEARTBEAT_EVERY_S, self._beat, (known,))
        threading.Thread(target=self._beat_instead, args=(worker, known), name="heartbeat", daemon=True).start()

    def close(self, _worker: Any) -> None:  # noqa: ANN401  as above
        """Record that the worker stops. Celery calls it before any step stops, and so waits for broker or pool."""
        if self._timer is not None:
            self._timer.cancel()
        self._stops = True
        if known := presence.of_this_process():
            known.stop(holds=len(state.active_requests))

    def terminate(self, _worker: Any) -> None:  # noqa: ANN401  as above
        """Delete the worker's row: Celery sends no signal if a worker ends immediately, as workers in tests do."""
        _end()

    def _beat(self, known: presence.Presence) -> None:
        self._turned_at = time.monotonic()
        _note(known)

    def _beat_instead(self, worker: Any, known: presence.Presence) -> None:  # noqa: ANN401  as above
        while not _ends.wait(presence.HEARTBEAT_EVERY_S):
            is_late = time.monotonic() > self._turned_at + 2 * presence.HEARTBEAT_EVERY_S
            if (
                self._is_green
                or self._stops
                or (is_late and (worker.consumer.connection is None or not _broker_answers()))
            ):
                _note(known)
            else:
                connection.close()  # this thread no longer needs its connection
        connection.close()


_ends = threading.Event()


def _note(known: presence.Presence) -> None:
    if known.is_handed_over:
        connection.close()  # as above
    else:
        known.show_life()
        known.heartbeat(holds=len(state.active_requests))


def _broker_answers() -> bool:
    try:
        broker_link.waiting(task_names.SWEEP)
    except broker_link.BrokerUnreachable:
        return False
    return True


@worker_shutdown.connect
def _end(**_signal: object) -> None:
    _ends.set()
    if known := presence.of_this_process():
        known.end()
    connection.close()  # this thread's connection: a test may have started the worker in a thread of its process
