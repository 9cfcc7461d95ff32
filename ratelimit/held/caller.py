"""A caller of `throttle`: how it gets a slot, waits for it, and ends.

1. Take a slot of a run that the process holds. Where none is free, one caller reserves, and others wait for that.
2. Wait for the slot on the clock of holders.
3. After a long wait, shortly before the start, ask the database whether the slot still stands: the site may have been
   paused or backed off, or have got another rate. For a run of several slots, the keeper asks.
4. If the slot was recalled, or the process is too late for it, give it back and begin again at 1.
5. When the body has ended, note that the slot was used. If the database is away, a warning is logged, and what the body
   did or raised stands.
"""

from collections.abc import Generator
from functools import partial

import structlog
from django.db import Error

from ratelimit import clock, slots
from ratelimit.held.held_run import HeldRun, Missed, Unconfirmed, confirm, confirm_ahead
from ratelimit.held.site_callers import SiteCallers
from ratelimit.held.steps import Await, Call, Sleep, Step, Steps
from ratelimit.slots import ReservedSlot

log = structlog.get_logger(__name__)


class Caller:
    """One use of `throttle`, by one thread or task."""

    _held: HeldRun
    _slot: ReservedSlot

    def __init__(self, callers: SiteCallers, latest: float) -> None:
        self._callers = callers
        self._latest = latest  # no slot is waited for that starts later
        self._has_slot = False

    @property
    def slot_id(self) -> int:
        """The slot in which the body runs."""
        return self._slot.id

    def start(self) -> Steps:
        """Return when the body may start; raises slots.SlotTooFar."""
        try:
            while True:
                yield from self._get_slot()
                if (yield from self._wait()):
                    return
                yield Call(self._give_up)
        except GeneratorExit:
            raise
        except BaseException:
            if self._has_slot and not self._held.put_back(self._slot):
                yield Call(partial(slots.release, self._slot.id))
            raise

    def end(self, at: float) -> Steps:
        """Note when the body has ended."""
        if not self._held.ended(self._slot, at):
            yield Call(self._finish)

    def _get_slot(self) -> Steps:
        self._callers.begin_waiting()
        try:
            while not (self._has_slot or self._callers.take(self._latest, self._take)):
                if reserving := self._callers.reserving:
                    yield Await(reserving)
                else:
                    yield Call(partial(self._callers.reserve, self._latest, self._take))
        finally:
            self._callers.end_waiting()

    def _take(self, held: HeldRun, slot: ReservedSlot) -> None:
        self._held, self._slot, self._has_slot = held, slot, True

    def _wait(self) -> Generator[Step, None, bool]:
        """Wait for the slot; return whether the body may start now."""
        held, slot = self._held, self._slot
        while True:
            try:
                wait_s = held.try_start(slot)
            except Missed:
                return False
            except Unconfirmed:
                yield Call(partial(confirm, [held]))
                continue
            if not wait_s:
                return True
            if held.is_confirmed_for(slot):
                yield Sleep(held, wait_s)
            elif wait_s > (ahead_s := confirm_ahead()):
                yield Sleep(held, wait_s - ahead_s)
            else:
                yield Call(partial(confirm, [held]))

    def _give_up(self) -> None:
        """Give back a slot that was recalled, or for which the process is too late."""
        self._has_slot = False
        self._held.forget(self._slot)
        slots.release(self._slot.id)
        slots.unreserve([self._slot.id])

    def _finish(self) -> None:
        """Note that the slot was used. Raises no database error: the caller would take it for a failure of the body."""
        began_at = clock.now()
        try:
            slots.finish(self._slot.id)
        except Error as error:
            log.warning("slot_not_finished", slot=self._slot.id, error=str(error))
        self._held.noted(clock.now() - began_at)
