"""A run that this process holds: its threads and tasks start in its slots, one after the other.

The interval counts from the moment at which a body begins. A caller cannot note that moment itself, because it may lose
the processor between its look at the clock and the body. So a start has two parts:

1. A caller is *let go*. The last thing that it does before its body is to set a mark. No other caller is let go before.
2. The first thread that comes after the mark reads the clock, and notes this time as the start. It is the next caller
   in line, which each start wakes; or the keeper, if no caller waits; or the caller itself at the end of its body.

By then the body has begun: Python runs one thread at a time, and switches threads only at calls and loops, and the code
between the mark and the body has neither. (Callers share no runs on a free-threaded Python: see process.py.)

A run ends in one of three ways: its time is *over*, it was *recalled*, or the keeper *stopped* it because no caller
needed it. Its free slots are then given back, and callers that wait in it reserve again. A slot is free, taken, let go,
begun, noted and used, in this order; a slot that is put back is free again. Only one slot of a run at a time is let go
or begun.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import NamedTuple

from weir.ratelimit import clock, round_trips, slots
from weir.ratelimit.held.run_size import LONGEST_RUN_S, Need
from weir.ratelimit.pacing import CONFIRMED_FOR_S, HAND_OVER_MARGIN_S, NEVER
from weir.ratelimit.slots import Reservation, ReservedSlot, SlotTooFar

CONFIRM_AHEAD = 0.1  # the database is asked so many seconds, and a round trip, before a start
MOST_AHEAD = 0.3
MARKED_IN_S = 0.001  # a caller that was let go sets its mark within this time, unless it loses the processor
BRIEF = 0.05  # of the interval: after so short a body the keeper is not woken, as such a caller notes its own start
USED_UP = 0.75  # the share of a run that counts as all of it, because stalls may use up the rest
# Seconds by which the next caller may be late before the rest of a run is given back: threads of a busy process are
# late by a part of this time, and giving slots back costs a grace.
PATIENCE_S = 0.1


def confirm_ahead() -> float:
    """Return how many seconds before a start the database is to be asked whether the slot stands."""
    return min(MOST_AHEAD, CONFIRM_AHEAD + round_trips.of_process.expected_s())


class Missed(Exception):
    """The slot cannot be used any more: the run is over, or was recalled."""


class Unconfirmed(Exception):
    """Before the start, the database has to be asked whether the slot still stands."""


@dataclass(eq=False, slots=True)
class TakenSlot:
    """A slot that one caller has taken."""

    slot: ReservedSlot
    has_begun: bool = False  # the mark: set by the caller as the last thing before its body

    @property
    def id(self) -> int:
        return self.slot.id


class RunRest(NamedTuple):
    """What a stopped run leaves: its free slots, and when the interval after its last start is over."""

    free: list[int]
    free_at: float  # seconds on the clock of holders


class HeldRun:
    """The slots of one reservation: free, taken by a caller that waits, or used. Thread-safe."""

    def __init__(self, reservation: Reservation) -> None:
        self.site = reservation.site
        self.size = len(reservation.slots)
        self.interval_s = reservation.run.interval_s
        self._run = reservation.run
        self._grace_s = reservation.grace_s
        self._next_arrival = reservation.arrival_at  # in GCRA, of the site; `_run` knows only the starts of the run
        self._first, self._last = reservation.slots[0], reservation.slots[-1]
        self._lock = threading.Lock()
        self._free = deque(reservation.slots)
        self._taken: set[TakenSlot] = set()
        self._let_go: TakenSlot | None = None  # a slot whose start is not noted yet
        self._let_go_at = NEVER  # when the last caller was let go
        self._is_brief = False  # whether the last body was brief
        self._used: list[int] = []  # slots that are to be recorded as used in the database
        self._given_back = 0
        self._is_recalled = False
        self._sleepers: deque[Callable[[], object]] = deque()
        self._wake_keeper: Callable[[], object] | None = None
        self._own_s = 0.0  # how long the last caller took to record that its slot was used
        self._quiet_since = clock.now()  # when a caller last came or left

    def keep(self, wake: Callable[[], object]) -> None:
        """Let the keeper record used slots and give back unused ones; `wake` makes the keeper note a start."""
        self._wake_keeper = wake

    @property
    def is_kept(self) -> bool:
        return self._wake_keeper is not None

    def take(self, latest: float) -> TakenSlot | None:
        """Take the next free slot for a caller; None if no slot is free. Raises SlotTooFar if it is after `latest`."""
        with self._lock:
            now = clock.now()
            if not self._free or self._has_ended(now):
                return None
            if (start_at := self._run.ready_at(self._free[0].start_at)) > latest:
                raise SlotTooFar(self.site, start_at - now)
            return self._take(now)

    def take_first(self) -> TakenSlot:
        """Take the first slot, for the caller that reserved the run, even if the caller is too late for the slot."""
        with self._lock:
            return self._take(clock.now())

    def put_back(self, taken: TakenSlot) -> bool:
        """Put back a slot that a caller does not use; False if the caller has to give it back in the database.

        May be called twice.
        """
        with self._lock:
            is_out = taken in self._taken or taken is self._let_go
            self._taken.discard(taken)
            if taken is self._let_go:
                self._let_go = None
            if is_out and self.is_kept:
                self._quiet_since = clock.now()
                self._free.appendleft(taken.slot)
            elif is_out:
                self._given_back += 1
            return self.is_kept

    def has_free_slots(self) -> bool:
        """Return whether a caller may still get a slot of the run."""
        with self._lock:
            return bool(self._free) and not self._has_ended(clock.now())

    def try_start(self, taken: TakenSlot) -> float:
        """Let the caller go, and return 0; or return the seconds after which the caller is to try again.

        Raises Missed, and Unconfirmed if only a confirmation by the database is missing.
        """
        with self._lock:
            now = clock.now()
            self._note_start(now)
            if self._has_ended(now):
                raise Missed
            if self._let_go:
                return MARKED_IN_S
            if (wait_s := self._run.ready_at(taken.slot.start_at) - now) > 0:
                return wait_s
            if not self._run.may_start(now):
                raise Unconfirmed
            self._taken.discard(taken)
            self._let_go, self._let_go_at, self._quiet_since = taken, now, now
            self._wake_who_notes()
            return 0.0

    def note_start(self) -> None:
        """Note the start of a caller that was let go, if its body has begun."""
        with self._lock:
            self._note_start(clock.now())

    def ended(self, taken: TakenSlot, at: float) -> bool:
        """Record when the body ended; False if its caller has to record in the database that the slot was used."""
        with self._lock:
            self._is_brief = self._let_go is taken and at - self._let_go_at < self.interval_s * BRIEF
            if self._let_go is taken:
                self._note_start(at)
            if self.is_kept:
                self._used.append(taken.id)
            return self.is_kept

    def noted(self, seconds: float) -> None:
        """Record how long a caller took to record that its slot was used: this time does not count as its lateness."""
        with self._lock:
            self._own_s = seconds

    def is_confirmed_for(self, taken: TakenSlot) -> bool:
        """Return whether the last confirmation covers a start in this slot, even if the start is a little late."""
        with self._lock:
            if self.is_kept:
                return True
            late_start = taken.slot.start_at + CONFIRMED_FOR_S - confirm_ahead() - HAND_OVER_MARGIN_S
            return self._run.confirmation.is_good_at(min(late_start, self._run.start_until - HAND_OVER_MARGIN_S))

    @property
    def last_slot(self) -> int:
        """The one slot about which the database is asked, because a recall makes all slots of a run void, or none."""
        return self._last.id

    def confirmed(self, asked_at: float, *, stands: bool) -> None:
        """Record what the database answered; if the run was recalled, its callers are woken."""
        with self._lock:
            self._run.confirmation.asked_at = max(asked_at, self._run.confirmation.asked_at)
            if not stands:
                self._is_recalled = True
                while self._sleepers:
                    self._sleepers.popleft()()

    def need(self) -> Need:
        """Return what determines the size of the next run, for a caller that comes now and finds no free slot."""
        with self._lock:
            now = clock.now()
            used = self.size - len(self._free) - self._given_back
            next_at = max(self._last.start_at, self._let_go_at) + self.interval_s
            return Need(
                used=used,
                is_too_small=used >= self.size * USED_UP and now - self._own_s <= next_at + self._grace_s,
                is_recent=now <= self._quiet_since + LONGEST_RUN_S,
            )

    @contextmanager
    def sleeping(self, wake: Callable[[], object]) -> Iterator[None]:
        """While the block lasts, call `wake` when another caller starts, or the run is recalled."""
        with self._lock:
            self._sleepers.append(wake)
        try:
            yield
        finally:
            with self._lock, suppress(ValueError):
                self._sleepers.remove(wake)

    def needs_confirming(self) -> bool:
        """Return whether the keeper should ask the database: the run's slots are near, and the last answer is old."""
        with self._lock:
            now = clock.now()
            return (
                bool(self._free or self._taken)
                and not self._has_ended(now)
                and self._first.start_at <= now + CONFIRM_AHEAD + confirm_ahead()
                and now - self._run.confirmation.asked_at > 1.5 * CONFIRM_AHEAD
            )

    def used(self) -> list[int]:
        """Return the slots that are to be recorded as used, and forget them."""
        with self._lock:
            used, self._used = self._used, []
            return used

    def stop(self, *, at_once: bool = False) -> RunRest | None:
        """Stop the run if no caller needs it; returns what is to be given back, or None if the run goes on."""
        with self._lock:
            now = clock.now()
            self._note_start(now)
            is_over = self._run.is_over(now)
            is_in_use = self._taken or self._let_go
            if not is_over and (is_in_use or (not at_once and now < self._needed_until())):
                return None
            free, self._free = [slot.id for slot in self._free], deque()
            self._given_back += len(free)
            self._wake_keeper = None
            # A caller that was let go, and has not marked its start by now, has lost the processor.
            return RunRest(free, self._run.use_until + self.interval_s if self._let_go else self._next_arrival)

    def _has_ended(self, now: float) -> bool:
        """Return whether no caller may start in the run any more."""
        return self._is_recalled or self._run.is_over(now)

    def _needed_until(self) -> float:
        """Return until when the run waits for a caller that needs it."""
        if self._is_recalled:
            return NEVER
        if not self._free:
            return self._run.start_until
        next_at = min(self._run.ready_at(self._free[0].start_at), self._quiet_since + self.interval_s)
        return min(self._run.start_until, max(next_at, self._quiet_since) + max(self._grace_s, PATIENCE_S))

    def _take(self, now: float) -> TakenSlot:
        taken = TakenSlot(self._free.popleft())
        self._taken.add(taken)
        self._quiet_since = now
        return taken

    def _wake_who_notes(self) -> None:
        if self._sleepers:
            self._sleepers.popleft()()
        elif self._wake_keeper and not self._is_brief:
            self._wake_keeper()

    def _note_start(self, now: float) -> None:
        if self._let_go and self._let_go.has_begun:
            self._run.started(now)
            self._next_arrival = max(now, self._next_arrival) + self.interval_s
            self._let_go = None


def confirm(runs: Iterable[HeldRun]) -> None:
    """Ask the database whether these runs still stand."""
    if runs := list(runs):
        asked_at = clock.now()
        standing = slots.standing([held.last_slot for held in runs])
        for held in runs:
            held.confirmed(asked_at, stands=held.last_slot in standing)
