"""The keeper: a thread of a process that holds runs of several slots. It asks the database about them for all callers.

- It notes which slots were used.
- It asks whether the runs still stand, as long as there is a caller.
- What no caller needs, it gives back.

The thread begins with the first run, and ends a moment after the last one.
"""

import threading
from collections.abc import Sequence

import structlog
from django.db import Error, connection

from ratelimit import clock, slots
from ratelimit.held.held_run import HeldRun, confirm

log = structlog.get_logger(__name__)

PERIOD_S = 0.1
LINGER_S = 0.2  # the next run may come soon: a thread of its own, and a connection, cost more than this


class Keeper:
    """Keeps the runs of one process. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pause = threading.Event()  # never set
        self._runs: list[HeldRun] = []
        self._thread: threading.Thread | None = None

    def keep(self, held: HeldRun) -> None:
        """Keep the run until it is over."""
        with self._lock:
            held.is_kept = True
            self._runs.append(held)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="keeper-of-runs", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Give back what is free, and note what was used: the process ends."""
        with self._lock:
            runs, self._runs = self._runs, []
        try:
            _write(runs, at_once=True)
        except Error as error:
            log.warning("runs_not_given_back", error=str(error))

    def _work(self) -> None:
        busy_at = clock.now()
        while not self._is_over(busy_at):
            if self._runs:
                self._turn()
                busy_at = clock.now()
            self._pause.wait(PERIOD_S)
        connection.close()

    def _is_over(self, busy_at: float) -> bool:
        """Tell whether the thread may end; the next run begins another one."""
        with self._lock:
            is_over = not self._runs and clock.now() > busy_at + LINGER_S
            if is_over:
                self._thread = None
            return is_over

    def _turn(self) -> None:
        with self._lock:
            runs = list(self._runs)
        try:
            confirm(held for held in runs if held.needs_confirming())
            _write(runs)
        except Error as error:
            log.warning("held_runs_wait_for_database", error=str(error))
            connection.close()
        except Exception:
            log.exception("held_runs_not_kept")  # callers ask the database themselves
        with self._lock:
            self._runs = [held for held in self._runs if held.is_kept]


def _write(runs: Sequence[HeldRun], *, at_once: bool = False) -> None:
    """Give back the rest of the runs that have ended, and note which slots were used."""
    rests = [rest for held in runs if (rest := held.stop(at_once=at_once)) and rest.free]
    used = [slot_id for held in runs for slot_id in held.used()]
    try:
        for rest in rests:
            slots.hand_back(rest.free, rest.after_s)
        if used:
            slots.finish(*used)
    except Error as error:
        log.warning("slots_not_finished", slots=used, error=str(error))
        raise
