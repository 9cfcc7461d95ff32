"""throttle() and athrottle(): any code, started only in its site's slot.

    with throttle("api.example.com"):
        requests.get("https://api.example.com/orders")

1. Reserve a start. 2. Wait for it on the monotonic clock. 3. Too late (the process was stalled)? Give the slot back
and reserve again. 4. Run the body at once: what it starts first is what is paced. 5. Finish the slot.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

from asgiref.sync import sync_to_async

from ratelimit import slots


@contextmanager
def throttle(site: str, max_wait: float = 15.0) -> Iterator[int]:
    """Wait until the site may be called again, over all processes and hosts; yields the slot's id.

    Send the request first thing in the body. Raises slots.SlotTooFar, without waiting, when the start is more than
    `max_wait` seconds away from the call, and TransactionManagementError inside a transaction (a lock must not be
    held while waiting).
    """
    give_up_at = time.monotonic() + max_wait
    while True:
        reservation = slots.reserve(site, max_wait=max(0.0, give_up_at - time.monotonic()))
        slot = reservation.slots[0]
        try:
            while (wait_s := slot.start_at - time.monotonic()) > 0:
                time.sleep(wait_s)
        except BaseException:
            slots.release(slot.id)
            raise
        if reservation.run.may_start(time.monotonic()):
            break
        slots.release(slot.id)
    try:
        yield slot.id
    finally:
        slots.finish(slot.id)


@asynccontextmanager
async def athrottle(site: str, max_wait: float = 15.0) -> AsyncIterator[int]:
    """Do what throttle() does, without blocking the event loop; cancelling the wait gives the slot back."""
    reserve, release, finish = sync_to_async(slots.reserve), sync_to_async(slots.release), sync_to_async(slots.finish)
    give_up_at = time.monotonic() + max_wait
    while True:
        reserving = asyncio.ensure_future(reserve(site, max_wait=max(0.0, give_up_at - time.monotonic())))
        try:
            reservation = await asyncio.shield(reserving)
        except asyncio.CancelledError:  # the statement goes on in its thread: what it reserves is given back
            with suppress(slots.SlotTooFar):
                await release((await reserving).slots[0].id)
            raise
        slot = reservation.slots[0]
        try:
            while (wait_s := slot.start_at - time.monotonic()) > 0:  # noqa: ASYNC110  time is the only event
                await asyncio.sleep(wait_s)
        except BaseException:
            await asyncio.shield(release(slot.id))
            raise
        if reservation.run.may_start(time.monotonic()):
            break
        await release(slot.id)
    try:
        yield slot.id
    finally:
        await asyncio.shield(finish(slot.id))
