"""The keeper: a thread that keeps the runs of several slots in a process. It works for all callers of these runs.

- It records which slots were used; if the database cannot be reached, it does so later.
- It asks the database whether the runs still stand, as long as some of their slots are free or taken.
- It gives back slots that no caller needs.
- It notes a start that no other caller would note soon.

The thread begins with the first run, and ends a moment after the last one.
"""

import threading
import time

from django.db import Error, connection

from weir.logs.loggers import get_logger
from weir.ratelimit import clock, slots
from weir.ratelimit.held.held_run import HeldRun, RunRest, confirm

log = get_logger(__name__)

PERIOD_S = 0.1
AFTER_ERROR_S = 1.0  # until the next turn, after an error such as a database that cannot be reached
LINGER_S = 0.2  # how long the thread waits for another run, which would otherwise need a new thread and connection
CLOSING_S = 5.0  # how long a process that ends waits for a turn that has begun


class Keeper:
    """Keeps the runs of one process. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._turning = threading.Lock()  # held during a turn of the thread, and by `close`
        self._start_made = threading.Event()
        self._runs: list[HeldRun] = []
        self._thread: threading.Thread | None = None
        self._rests: list[RunRest] = []  # their free slots are to be given back
        self._used: list[int] = []  # slots that are to be recorded as used

    def keep(self, held: HeldRun) -> None:
        """Keep the run until no caller needs it; if no thread can be started, each caller handles its own slot."""
        with self._lock:
            if not (self._thread and self._thread.is_alive()):
                self._thread = threading.Thread(target=self._work, name="keeper-of-runs", daemon=True)
                try:
                    self._thread.start()
                except RuntimeError as error:
                    log.warning("keeper_not_started", error=str(error))
                    return
            held.keep(self._start_made.set)
            self._runs.append(held)

    def close(self) -> None:
        """Give back free slots, and record used ones, because the process ends."""
        if not self._turning.acquire(timeout=CLOSING_S):
            log.warning("runs_not_given_back", error="the database does not answer")
            return
        try:
            self._collect(at_once=True)
            self._write()
        except Error as error:
            log.warning("runs_not_given_back", slots_not_finished=self._used, error=str(error))
        finally:
            self._turning.release()

    def _work(self) -> None:
        busy_at = time.monotonic()
        while not self._is_over(busy_at):
            pause_s = PERIOD_S
            if self._has_work():
                pause_s = self._turn()
                busy_at = time.monotonic()
            self._pause(pause_s)
        connection.close()

    def _has_work(self) -> bool:
        return bool(self._runs or self._rests or self._used)

    def _is_over(self, busy_at: float) -> bool:
        """Return whether the thread may end; the next run begins another one."""
        with self._lock:
            is_over = not self._has_work() and time.monotonic() > busy_at + LINGER_S
            if is_over:
                self._thread = None
            return is_over

    def _turn(self) -> float:
        """Ask the database about the runs, and record what became of slots; return the seconds until the next turn."""
        with self._turning:
            try:
                confirm(held for held in self._snapshot() if held.needs_confirming())
                self._collect()
                self._write()
            except Error as error:
                log.warning("held_runs_wait_for_database", error=str(error))
                connection.close()
                return AFTER_ERROR_S
            except Exception:
                log.exception("held_runs_not_kept")  # meanwhile callers ask the database themselves
                return AFTER_ERROR_S
            return PERIOD_S

    def _pause(self, seconds: float) -> None:
        """Wait until the next turn, and note starts meanwhile."""
        until = time.monotonic() + seconds
        while (left_s := until - time.monotonic()) > 0:
            if self._start_made.wait(left_s):
                self._start_made.clear()
                for held in self._snapshot():
                    held.note_start()

    def _snapshot(self) -> list[HeldRun]:
        with self._lock:
            return list(self._runs)

    def _collect(self, *, at_once: bool = False) -> None:
        """Stop the runs that no caller needs, and remember what is to be written."""
        runs = self._snapshot()
        self._rests += [rest for held in runs if (rest := held.stop(at_once=at_once)) and rest.free]
        self._used += [slot_id for held in runs for slot_id in held.used()]
        with self._lock:
            self._runs = [held for held in self._runs if held.is_kept]

    def _write(self) -> None:
        while self._rests:
            rest = self._rests[0]
            slots.hand_back(rest.free, max(0.0, rest.free_at - clock.now()))
            del self._rests[0]
        if self._used:
            slots.finish(*self._used)
            self._used.clear()
