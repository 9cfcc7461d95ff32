"""The callers of one process at one site, and the runs that the process holds for them."""

import threading
from collections.abc import Callable

from weir.ratelimit import clock, slots
from weir.ratelimit.held.held_run import HeldRun, TakenSlot
from weir.ratelimit.held.keeper import Keeper
from weir.ratelimit.held.run_size import RunSize
from weir.ratelimit.slots import SlotTooFar

Got = Callable[[HeldRun, TakenSlot], None]


class SiteCallers:
    """Hands out the slots of runs, and reserves a run if no slot is free. Thread-safe."""

    def __init__(self, host: str, keeper: Keeper) -> None:
        self.waiting: set[object] = set()  # callers without a slot
        self._host = host
        self._keeper = keeper
        self._lock = threading.Lock()
        self._reserving = threading.Lock()
        self._runs: list[HeldRun] = []
        self._size = RunSize()

    def take(self, latest: float, got: Got) -> bool:
        """Hand out the next free slot; returns False if no slot is free. Raises SlotTooFar if it is after `latest`."""
        with self._lock:
            for held in self._runs:
                if taken := held.take(latest):
                    got(held, taken)
                    return True
            return False

    def take_or_reserve(self, latest: float, got: Got) -> None:
        """Hand out the next free slot, or the first slot of a new run. Raises what slots.reserve raises.

        If runs may have several slots, one caller at a time reserves, and the others wait for the new run.
        """
        if not self._size.may_be_longer:
            self._reserve(latest, got)
            return
        with self._reserving:
            if not self.take(latest, got):
                self._reserve(latest, got)

    def _reserve(self, latest: float, got: Got) -> None:
        max_wait = max(0.0, latest - clock.now())
        with self._lock:
            count = self._size.next(len(self.waiting), self._runs[-1].need() if self._runs else None)
        reservation = self._reservation(count, max_wait)
        held = HeldRun(reservation)
        taken = held.take_first()
        if held.size > 1:
            self._keeper.keep(held)
        got(held, taken)
        with self._lock:
            wait_s = taken.slot.start_at - clock.now()
            self._size.reserved(held.size, reservation, wait_s=wait_s, max_wait=max_wait)
            self._runs = [*(run for run in self._runs if run.has_free_slots()), held]

    def _reservation(self, count: int, max_wait: float) -> slots.Reservation:
        try:
            return slots.reserve(self._host, count, max_wait=max_wait)
        except SlotTooFar:
            if count == 1:
                raise
        return slots.reserve(self._host, max_wait=max_wait)  # a given-back slot may be nearer
