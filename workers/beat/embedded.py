"""Beat in a worker (`celery worker --beat`): a thread, instead of the process that Celery would fork.

A process would have copies of the worker's connections, and take a third of a worker's memory, although beat waits
nearly all the time. If beat ends with an error, for example because PostgreSQL is away when it begins, it begins anew,
and the worker goes on meanwhile.

If beat hangs, for example behind a proxy that has lost PostgreSQL and does not say so, all other sessions of the
process hang, too, and nothing would report that. So the process ends, as it does if a part of its fetcher hangs, and
its supervisor starts another.

Beat has a row of its own in the table of processes, named `beat-in-` and the worker's name, and a file of that name in
WEIR_LIVENESS_DIR: the loops of the worker and of beat each report only themselves.
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
STOPS_WITHIN_S: Final = 5.0  # how long a worker that stops waits for beat; after that the lease ends by itself

log = get_logger(__name__)


def patience_s() -> float:
    """Return the seconds that beat may take between two turns: longer than two of its statements can take."""
    return 2 * settings.WEIR_STATEMENT_TIMEOUT + ending.SPARE_S if settings.WEIR_STATEMENT_TIMEOUT else float("inf")


def have_beat_in_a_thread(worker_name: str) -> None:
    """Make Celery start the thread `Beat` in this process, the worker of that name, if its command has `--beat`."""
    celerys: Any = beat
    celerys.EmbeddedService = partial(Beat, worker_name)


class Beat(threading.Thread):
    """The thread of beat. Celery starts and stops it with the worker, from the worker's main thread."""

    def __init__(self, worker_name: str, app: Any, **options: Any) -> None:  # noqa: ANN401  Celery's own have no types
        """Take the arguments that Celery passes to its own thread or process of beat; the scheduler is Weir's."""
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
                if not self._is_to_stop.is_set():  # `stop` may have been called before this service existed
                    self._service.start()
            except Exception:
                log.exception("beat_begins_again")
                self._is_to_stop.wait(BEGINS_AGAIN_S)
            except SystemExit as refusal:  # a signal's receiver raised it; a thread would end silently
                ending.end_process(ENDS, reason=str(refusal))
            finally:
                connection.close()

    def stop(self) -> None:
        """Make beat give up its lease and end; return when it has ended, or after STOPS_WITHIN_S."""
        self._is_to_stop.set()
        if self._service is not None:
            self._service.stop()
        self.join(STOPS_WITHIN_S)

    terminate = stop  # Celery calls it if a worker must end immediately

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
