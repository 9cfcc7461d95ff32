"""Beat in a worker, by `celery worker --beat`: a thread, for which Celery would fork a process.

A process would have copies of the worker's connections, and take a third of a worker's memory. Beat waits nearly all
the time. If it ends with an error, as without PostgreSQL when it begins, it begins anew; the worker goes on meanwhile.

If it hangs, as behind a proxy that has lost PostgreSQL and says nothing, all other sessions of the process hang, too,
and nothing would report that. So the process ends then, as it does if a part of its fetcher hangs; its supervisor
starts another.

It has a row of its own in the table of processes, `beat-in-` and the worker's name, and a file of that name in
WEIR_LIVENESS_DIR: each of the two loops reports only itself.
"""

import threading
import time
from functools import partial
from typing import Any, Final

from celery import beat
from django.db import connection

from weir.conf import settings
from weir.logs.loggers import get_logger
from weir.postgres import statements
from weir.workers.beat.scheduler import LeasedScheduler
from weir.workers.processes import ending
from weir.workers.processes.kinds import BEAT

BEGINS_AGAIN_S: Final = 2.0
ENDS: Final = "beat_ends"
STOPS_WITHIN_S: Final = 5.0  # after that a worker that stops no longer waits: the lease ends by itself

log = get_logger(__name__)


def patience_s() -> float:
    """Return how long beat may go without a turn: PostgreSQL ends each of its statements, and the next, before that."""
    return 2 * settings.WEIR_STATEMENT_TIMEOUT + ending.SPARE_S if settings.WEIR_STATEMENT_TIMEOUT else float("inf")


def have_beat_in_a_thread(worker_name: str) -> None:
    """Make Celery start such a thread in this process, the worker of that name, if its command asks for beat."""
    celerys: Any = beat
    celerys.EmbeddedService = partial(Beat, worker_name)


class Beat(threading.Thread):
    """The thread that Celery starts, and stops, with the worker, both from the worker's main thread."""

    def __init__(self, worker_name: str, app: Any, **options: Any) -> None:  # noqa: ANN401  Celery's own have no types
        """Take what Celery passes to its own thread or process of beat; the scheduler is Weir's."""
        super().__init__(name="beat", daemon=True)
        self._app, self._options = app, options
        self._row_name = f"{BEAT}-in-{worker_name}"
        self._is_to_stop = threading.Event()
        self._service: Any = None
        self._turned_at = time.monotonic()

    def run(self) -> None:
        """Run beat until it is told to stop."""
        self._app.set_current()
        statements.before_each(self._turn)
        self._turn()
        threading.Thread(target=self._watch, name="beat-watchdog", daemon=True).start()
        while not self._is_to_stop.is_set():
            try:
                self._service = self._new()
                if not self._is_to_stop.is_set():  # `stop` may have come before there was this service
                    self._service.start()
            except Exception:
                log.exception("beat_begins_again")
                self._is_to_stop.wait(BEGINS_AGAIN_S)
            except SystemExit as refusal:  # by a receiver of a signal; a thread would end silently
                ending.end_process(ENDS, reason=str(refusal))
            finally:
                connection.close()

    def stop(self) -> None:
        """Make beat give up its lease, and end; returns when it has ended, or after STOPS_WITHIN_S."""
        self._is_to_stop.set()
        if self._service is not None:
            self._service.stop()
        self.join(STOPS_WITHIN_S)

    terminate = stop  # called if a worker is to end immediately

    def _turn(self) -> None:
        self._turned_at = time.monotonic()

    def _watch(self) -> None:
        for stood_still_s in ending.looks(self._is_to_stop):
            now = time.monotonic()
            self._turned_at = min(now, self._turned_at + stood_still_s)
            if now - self._turned_at > patience_s():
                ending.end_process(ENDS, reason=f"it has made no turn for {now - self._turned_at:.1f} s")

    def _new(self) -> Any:  # noqa: ANN401  as above
        """Return Celery's beat service. The worker answers remote control, so its beat does not."""
        made = partial(LeasedScheduler, name=self._row_name, each_tick=self._turn)
        service: Any = beat.Service(self._app, **{**self._options, "scheduler_cls": made})
        service.remote_control = False  # Celery 5.7 reads this; up to 5.6, no beat answers
        return service
