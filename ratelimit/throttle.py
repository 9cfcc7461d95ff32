"""throttle() and athrottle() run any code in a slot of its site.

    with throttle("api.example.com"):
        requests.get("https://api.example.com/orders")

1. Reserve a start.
2. Wait for it on the monotonic clock.
3. After a long wait, shortly before the start, ask the database whether the slot still stands: the site may have been
   paused or backed off, or have got another rate.
4. If the slot was recalled, or the process is too late for it, give it back and begin again at 1.
5. Run the body. Only what it does first is paced.
6. Note that the slot was used. If the database is away, a warning is logged, and what the body did or raised stands.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

import structlog
from asgiref.sync import sync_to_async
from django.db import Error

from ratelimit import slots
from ratelimit.pacing import CONFIRMED_FOR_S, Run

log = structlog.get_logger(__name__)

CONFIRM_AHEAD = 0.1  # seconds before the start


@contextmanager
def throttle(site: str, max_wait: float = 15.0) -> Iterator[int]:
    """Wait for the site's next slot, which no other process on any host gets; yields the slot's id.

    Send the request first in the body. Raises slots.SlotTooFar, without waiting, where the start is more than
    `max_wait` seconds away from the call; ValueError for a `max_wait` outside 0 to 100 years; and
    TransactionManagementError inside a transaction, which would hold its locks during the wait.
    """
    slots.check_max_wait(max_wait)
    give_up_at = time.monotonic() + max_wait
    while True:
        reservation = slots.reserve(site, max_wait=max(0.0, give_up_at - time.monotonic()))
        slot = reservation.slots[0]
        try:
            stands = True
            if not _is_confirmed(reservation.run):
                _sleep_until(slot.start_at - CONFIRM_AHEAD)
                stands = slots.confirm(reservation)
            if stands:
                _sleep_until(slot.start_at)
        except BaseException:
            slots.release(slot.id)
            raise
        if stands and reservation.run.may_start(time.monotonic()):
            break
        _give_up(slot.id)
    try:
        yield slot.id
    finally:
        _finish(slot.id)


@asynccontextmanager
async def athrottle(site: str, max_wait: float = 15.0) -> AsyncIterator[int]:
    """Do as throttle() does, without blocking the event loop. Cancelling the wait gives the slot back."""
    slots.check_max_wait(max_wait)
    reserve, confirm = sync_to_async(slots.reserve), sync_to_async(slots.confirm)
    release, give_up, finish = sync_to_async(slots.release), sync_to_async(_give_up), sync_to_async(_finish)
    give_up_at = time.monotonic() + max_wait
    while True:
        reserving = asyncio.ensure_future(reserve(site, max_wait=max(0.0, give_up_at - time.monotonic())))
        try:
            reservation = await asyncio.shield(reserving)
        except asyncio.CancelledError:  # the statement goes on in its thread; what it reserves is given back
            with suppress(slots.SlotTooFar):
                await release((await reserving).slots[0].id)
            raise
        slot = reservation.slots[0]
        try:
            stands = True
            if not _is_confirmed(reservation.run):
                await _sleep_until_async(slot.start_at - CONFIRM_AHEAD)
                stands = await confirm(reservation)
            if stands:
                await _sleep_until_async(slot.start_at)
        except BaseException:
            await asyncio.shield(release(slot.id))
            raise
        if stands and reservation.run.may_start(time.monotonic()):
            break
        await give_up(slot.id)
    try:
        yield slot.id
    finally:
        await asyncio.shield(finish(slot.id))


def _give_up(slot_id: int) -> None:
    """Give back a slot that was recalled, or for which the process is too late."""
    slots.release(slot_id)
    slots.unreserve([slot_id])


def _finish(slot_id: int) -> None:
    """Note that the slot was used. Raises no database error: the caller would take it for a failure of the body."""
    try:
        slots.finish(slot_id)
    except Error as error:
        log.warning("slot_not_finished", slot=slot_id, error=str(error))


def _is_confirmed(run: Run) -> bool:
    """Tell whether the reservation itself confirms the slot for as long as it may be used."""
    return run.start_until <= run.confirmation.asked_at + CONFIRMED_FOR_S


def _sleep_until(moment: float) -> None:
    while (wait_s := moment - time.monotonic()) > 0:
        time.sleep(wait_s)


async def _sleep_until_async(moment: float) -> None:
    while (wait_s := moment - time.monotonic()) > 0:  # noqa: ASYNC110  time is the only event
        await asyncio.sleep(wait_s)
