"""A caller of `throttle`: how it gets a slot, waits for it, and ends.

1. Take a slot of a run that the process holds. If none is free, one caller reserves a run, and others wait for it.
2. Wait for the time of the slot, on the clock of holders (clock.py).
3. After a long wait, shortly before the start, ask the database whether the slot still stands: the site may have been
   paused or backed off, or may have got another rate. For a run of several slots, the keeper asks.
4. If the slot was recalled, or the process is too late for it, give it back and begin again at 1.
5. When the body has ended, record that the slot was used. If the database cannot be reached, a warning is logged, and
   the result or exception of the body stands.
"""

import os
from collections.abc import Generator
from functools import partial

from django.db import Error

from weir.logs.loggers import get_logger
from weir.ratelimit import clock, slots
from weir.ratelimit.held.held_run import HeldRun, Missed, TakenSlot, Unconfirmed, confirm, confirm_ahead
from weir.ratelimit.held.site_callers import SiteCallers
from weir.ratelimit.held.steps import Call, Sleep, Step, Steps

log = get_logger(__name__)


class Caller:
    """One use of `throttle`, by one thread or task."""

    taken: TakenSlot  # the slot in which the body runs
    _held: HeldRun

    def __init__(self, callers: SiteCallers, latest: float) -> None:
        self._callers = callers
        self._latest = latest  # the latest start for which the caller waits
        self._has_slot = False
        self._has_left = False
        self._process = os.getpid()

    def start(self) -> Steps:
        """Return when the body may begin; the caller then sets TakenSlot.has_begun. Raises slots.SlotTooFar."""
        try:
            while True:
                yield from self._get_slot()
                if (yield from self._wait()):
                    return
                yield Call(self._give_up)
        except BaseException as error:
            self._has_left = True
            if self._has_slot and not self._held.put_back(self.taken) and not isinstance(error, GeneratorExit):
                yield Call(self._release)
            raise

    def end(self, at: float) -> Steps:
        """Record when the body ended. A child that was forked in the body leaves the recording to its parent."""
        if os.getpid() == self._process and not self._held.ended(self.taken, at):
            yield Call(self._finish)

    def _get_slot(self) -> Steps:
        try:
            self._callers.waiting.add(self)
            if not (self._has_slot or self._callers.take(self._latest, self._got)):
                yield Call(self._take_or_reserve)
        finally:
            self._callers.waiting.discard(self)

    def _take_or_reserve(self) -> None:
        self._callers.take_or_reserve(self._latest, self._got)
        if self._has_left and not self._held.put_back(self.taken):  # the loop of the caller's task was closed meanwhile
            self._release()

    def _got(self, held: HeldRun, taken: TakenSlot) -> None:
        self._held, self.taken, self._has_slot = held, taken, True

    def _wait(self) -> Generator[Step, None, bool]:
        """Wait for the slot; return True when the body may begin, False if the slot cannot be used any more."""
        held, taken = self._held, self.taken
        while True:
            try:
                wait_s = held.try_start(taken)
            except Missed:
                return False
            except Unconfirmed:
                yield Call(partial(confirm, [held]))
                continue
            if not wait_s:
                return True
            if held.is_confirmed_for(taken):
                yield Sleep(held, wait_s)
            elif wait_s > (ahead_s := confirm_ahead()):
                yield Sleep(held, wait_s - ahead_s)
            else:
                yield Call(partial(confirm, [held]))

    def _give_up(self) -> None:
        """Give back a slot that was recalled, or for which the process is too late."""
        self._has_slot = False
        if not self._held.put_back(self.taken):
            slots.release(self.taken.id)
            slots.unreserve([self.taken.id])

    def _release(self) -> None:
        """Give back a slot after an exception. Raises no database error, which would hide that exception."""
        try:
            slots.release(self.taken.id)
        except Error as error:
            log.warning("slot_not_given_back", slot=self.taken.id, error=str(error))

    def _finish(self) -> None:
        """Record that the slot was used. Raises no database error, which would look like a failure of the body."""
        began_at = clock.now()
        try:
            slots.finish(self.taken.id)
        except Error as error:
            log.warning("slot_not_finished", slot=self.taken.id, error=str(error))
        self._held.noted(clock.now() - began_at)
