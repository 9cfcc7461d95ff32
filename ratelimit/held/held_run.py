"""A run that this process holds: its threads and tasks start in its slots, one after the other.

A start must be noted no earlier than it is made, or the next one comes too soon; and nobody tells when the code in the
body of a `with` really starts. So a start is *open* until the body ends, or until another thread or task of the process
runs: by then the one that was let go has passed the point at which its body begins. Whoever comes first notes the start
by the clock, and the interval counts from there. Therefore a start wakes the next caller in line.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

from ratelimit import clock, round_trips, slots
from ratelimit.held.run_size import LONGEST_RUN_S, Need
from ratelimit.pacing import CONFIRMED_FOR_S, HAND_OVER_MARGIN_S, NEVER
from ratelimit.slots import Reservation, ReservedSlot, SlotTooFar

CONFIRM_AHEAD = 0.1  # seconds before a start, and a round trip
MOST_AHEAD = 0.3
USED_UP = 0.75  # of a run: the rest may be lost to stalls
# Seconds by which the next caller may be late before the rest of a run is given back: threads of a busy process are
# late by some of that, and what is given back costs a grace.
PATIENCE_S = 0.1


def confirm_ahead() -> float:
    """Return how many seconds before a start the database is to be asked whether the slot stands."""
    return min(MOST_AHEAD, CONFIRM_AHEAD + round_trips.of_process.expected_s())


class Missed(Exception):
    """The slot cannot be used any more: the run is over, or its slots were recalled."""


class Unconfirmed(Exception):
    """The database has to be asked first whether the slot still stands."""


class Rest(NamedTuple):
    """What a run leaves: its free slots, and the seconds until the interval after its last start is over."""

    free: list[int]
    after_s: float


class HeldRun:
    """The slots of one reservation: free, taken by a caller that waits, or used. Thread-safe."""

    def __init__(self, reservation: Reservation) -> None:
        self.site = reservation.site
        self.size = len(reservation.slots)
        self.interval_s = reservation.run.interval_s
        self.is_kept = False  # by the keeper, which notes what was used, and gives back what is not
        self._run = reservation.run
        self._grace_s = reservation.grace_s
        self._next_arrival = reservation.arrival_at  # GCRA's, for the site: what `_run` knows begins with the run
        self._first, self._last = reservation.slots[0], reservation.slots[-1]
        self._lock = threading.Lock()
        self._free = deque(reservation.slots)
        self._taken: set[int] = set()
        self._used: list[int] = []  # to be noted as used
        self._open: int | None = None  # the slot whose start is not noted yet
        self._sleepers: deque[Callable[[], object]] = deque()
        self._is_void = False
        self._given_back = 0
        self._own_s = 0.0  # how long the last caller was busy with noting that its slot was used
        self._quiet_since = clock.now()  # when a caller came or left last

    def take(self, latest: float) -> ReservedSlot | None:
        """Take the next free slot for a caller; None where there is none. Raises SlotTooFar if it is after `latest`."""
        with self._lock:
            now = clock.now()
            if self._is_void or not self._free or self._run.is_over(now):
                return None
            if (start_at := self._run.ready_at(self._free[0].start_at)) > latest:
                raise SlotTooFar(self.site, start_at - now)
            return self._taken_at(now)

    def take_first(self) -> ReservedSlot:
        """Take the first slot, for the caller that reserved, also where it is too late for it."""
        with self._lock:
            return self._taken_at(clock.now())

    def put_back(self, slot: ReservedSlot) -> bool:
        """Put back what a caller took and does not use; False where the caller has to give it back itself."""
        with self._lock:
            self._taken.discard(slot.id)
            self._quiet_since = clock.now()
            if self.is_kept:
                self._free.appendleft(slot)
            return self.is_kept

    def forget(self, slot: ReservedSlot) -> None:
        """Note that the caller has given the slot back itself."""
        with self._lock:
            self._taken.discard(slot.id)
            self._given_back += 1

    def is_current(self) -> bool:
        """Tell whether the run may still have a slot for a caller."""
        with self._lock:
            return bool(self._free) and not self._is_void and not self._run.is_over(clock.now())

    def try_start(self, slot: ReservedSlot) -> float:
        """Start in the slot now, and return 0; or return after how many seconds to try again.

        Raises Missed, and Unconfirmed where only the word of the database is missing.
        """
        with self._lock:
            now = clock.now()
            self._note_open(now)
            if self._is_void:
                raise Missed
            if (wait_s := self._run.ready_at(slot.start_at) - now) > 0:
                return wait_s
            if not self._run.may_start(now):
                raise Missed if self._run.is_over(now) or self._run.confirmation.is_good_at(now) else Unconfirmed
            self._taken.discard(slot.id)
            self._open, self._quiet_since = slot.id, now
            if self._sleepers:
                self._sleepers.popleft()()
            return 0.0

    def ended(self, slot: ReservedSlot, at: float) -> bool:
        """Note when the body ended; False where its caller has to note in the database that the slot was used."""
        with self._lock:
            if self._open == slot.id:
                self._note_open(at)
            if self.is_kept:
                self._used.append(slot.id)
            return self.is_kept

    def noted(self, seconds: float) -> None:
        """Note how long it took to note that a slot was used: for that, its caller was not late."""
        with self._lock:
            self._own_s = seconds

    def is_confirmed_for(self, slot: ReservedSlot) -> bool:
        """Tell whether the last word of the database is good for a start in this slot, also for one a little late."""
        with self._lock:
            if self.is_kept:
                return True
            late_start = slot.start_at + CONFIRMED_FOR_S - confirm_ahead() - HAND_OVER_MARGIN_S
            return self._run.confirmation.is_good_at(min(late_start, self._run.start_until - HAND_OVER_MARGIN_S))

    @property
    def last_slot(self) -> int:
        """The slot for which the database is asked: a recall makes all of a run void, or none."""
        return self._last.id

    def confirmed(self, asked_at: float, *, stands: bool) -> None:
        """Note what the database answered; if the run was recalled, its callers are woken."""
        with self._lock:
            self._run.confirmation.asked_at = max(asked_at, self._run.confirmation.asked_at)
            if not stands:
                self._is_void = True
                while self._sleepers:
                    self._sleepers.popleft()()

    def need(self) -> Need:
        """Return what a caller that comes now, and finds no free slot, says about the size of the next run."""
        with self._lock:
            now = clock.now()
            used = self.size - len(self._free) - self._given_back
            next_at = self._run.ready_at(self._last.start_at + self.interval_s)
            return Need(
                used=used,
                is_too_small=used >= self.size * USED_UP and now - self._own_s <= next_at + self._grace_s,
                is_recent=now <= self._quiet_since + LONGEST_RUN_S,
            )

    @contextmanager
    def sleeping(self, wake: Callable[[], object]) -> Iterator[None]:
        """Have `wake` called when another caller starts, or the run is recalled, while the block lasts."""
        with self._lock:
            self._sleepers.append(wake)
        try:
            yield
        finally:
            with self._lock, suppress(ValueError):
                self._sleepers.remove(wake)

    def needs_confirming(self) -> bool:
        """Tell whether the keeper should ask the database: the turn of the run has come, and the last word is old."""
        with self._lock:
            now = clock.now()
            return (
                not self._is_void
                and bool(self._free or self._taken)
                and self._first.start_at <= now + CONFIRM_AHEAD + confirm_ahead()
                and now - self._run.confirmation.asked_at > 1.5 * CONFIRM_AHEAD
            )

    def used(self) -> list[int]:
        """Return the slots that are to be noted as used, and forget them."""
        with self._lock:
            used, self._used = self._used, []
            return used

    def stop(self, *, at_once: bool = False) -> Rest | None:
        """Stop the run where no caller needs it; returns what is to be given back, None where it goes on."""
        with self._lock:
            now = clock.now()
            waits = self._taken and not self._run.is_over(now)
            if waits or not (at_once or now >= self._given_up_at()):
                return None
            self._note_open(now)
            free, self._free = [slot.id for slot in self._free], deque()
            self._given_back += len(free)
            self.is_kept = False
            return Rest(free, max(0.0, self._next_arrival - now))

    def _given_up_at(self) -> float:
        if self._is_void:
            return NEVER
        if not self._free:
            return self._run.start_until
        next_at = min(self._run.ready_at(self._free[0].start_at), self._quiet_since + self.interval_s)
        return min(self._run.start_until, max(next_at, self._quiet_since) + max(self._grace_s, PATIENCE_S))

    def _taken_at(self, now: float) -> ReservedSlot:
        slot = self._free.popleft()
        self._taken.add(slot.id)
        self._quiet_since = now
        return slot

    def _note_open(self, now: float) -> None:
        if self._open is not None:
            self._run.started(now)
            self._next_arrival = max(now, self._next_arrival) + self.interval_s
            self._open = None


def confirm(runs: Iterable[HeldRun]) -> None:
    """Ask the database whether these runs still stand."""
    if runs := list(runs):
        asked_at = clock.now()
        standing = slots.standing([held.last_slot for held in runs])
        for held in runs:
            held.confirmed(asked_at, stands=held.last_slot in standing)
