"""The callers of one process at one site, and the runs that the process holds for them."""

import threading
from collections.abc import Callable
from concurrent.futures import Future

from ratelimit import clock, slots
from ratelimit.held.held_run import HeldRun
from ratelimit.held.keeper import Keeper
from ratelimit.held.run_size import RunSize
from ratelimit.slots import ReservedSlot, SlotTooFar

Got = Callable[[HeldRun, ReservedSlot], None]


class SiteCallers:
    """Hands the slots of runs out, and reserves where there are none. Thread-safe."""

    def __init__(self, host: str, keeper: Keeper) -> None:
        self._host = host
        self._keeper = keeper
        self._lock = threading.Lock()
        self._runs: list[HeldRun] = []
        self._size = RunSize()
        self._waiting = 0  # callers without a slot
        self._reserving: Future[None] | None = None

    @property
    def reserving(self) -> "Future[None] | None":
        """What ends when another caller has reserved, if one does: it may have reserved for all."""
        return self._reserving

    def begin_waiting(self) -> None:
        with self._lock:
            self._waiting += 1

    def end_waiting(self) -> None:
        with self._lock:
            self._waiting -= 1

    def take(self, latest: float, got: Got) -> bool:
        """Hand the next free slot out, if there is one. Raises SlotTooFar where it is after `latest`."""
        with self._lock:
            for held in self._runs:
                if slot := held.take(latest):
                    got(held, slot)
                    return True
            return False

    def reserve(self, latest: float, got: Got) -> None:
        """Reserve a run, and hand its first slot out; raises what slots.reserve raises.

        Hands out nothing where another caller begins to reserve at the same time.
        """
        ended: Future[None] = Future()
        try:
            with self._lock:
                if self._reserving:
                    return
                if self._size.may_be_longer:  # otherwise callers need not wait for each other
                    self._reserving = ended
            if not self.take(latest, got):
                got(*self._reserved(max(0.0, latest - clock.now())))
        finally:
            if self._reserving is ended:
                self._reserving = None
            ended.set_result(None)

    def _reserved(self, max_wait: float) -> tuple[HeldRun, ReservedSlot]:
        with self._lock:
            count = self._size.next(self._waiting, self._runs[-1].need() if self._runs else None)
        reservation = self._reservation(count, max_wait)
        held = HeldRun(reservation)
        slot = held.take_first()
        if held.size > 1:
            self._keeper.keep(held)
        with self._lock:
            wait_s = slot.start_at - clock.now()
            self._size.reserved(held.size, reservation, wait_s=wait_s, max_wait=max_wait)
            self._runs = [*(run for run in self._runs if run.is_current()), held]
        return held, slot

    def _reservation(self, count: int, max_wait: float) -> slots.Reservation:
        try:
            return slots.reserve(self._host, count, max_wait=max_wait)
        except SlotTooFar:
            if count == 1:
                raise
        return slots.reserve(self._host, max_wait=max_wait)  # a given-back slot may be nearer
