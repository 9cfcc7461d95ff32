"""throttle() and athrottle() run any code in a slot of its site.

    with throttle("api.example.com"):
        requests.get("https://api.example.com/orders")

How a caller gets its slot, and what the callers of a process share, stands in ratelimit.held.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial

from asgiref.sync import sync_to_async

from postgres import statements
from ratelimit import clock, slots
from ratelimit.held import steps
from ratelimit.held.caller import Caller
from ratelimit.held.process import callers_at

_refuse_transaction = partial(statements.refuse_transaction, "throttle()")


@contextmanager
def throttle(site: str, max_wait: float = 15.0, *, shares_runs: bool = True) -> Iterator[int]:
    """Wait for the site's next slot, which no other process on any host gets; yields the slot's id.

    Send the request first in the body. Where the body has to wait for something before that, let it share no run with
    other callers of this process: they count their starts from its beginning.

    Raises slots.SlotTooFar, without waiting, where the start is more than `max_wait` seconds away from the call;
    ValueError for a `max_wait` outside 0 to 100 years; and TransactionManagementError inside a transaction, which would
    hold its locks during the wait.
    """
    slots.check_max_wait(max_wait)
    _refuse_transaction()
    caller = Caller(callers_at(site, shared=shares_runs), clock.now() + max_wait)
    steps.run(caller.start())
    try:
        yield caller.slot_id
    finally:
        steps.run(caller.end(clock.now()))


@asynccontextmanager
async def athrottle(site: str, max_wait: float = 15.0) -> AsyncIterator[int]:
    """Do as throttle() does, without blocking the event loop. Cancelling the wait gives the slot back."""
    slots.check_max_wait(max_wait)
    latest = clock.now() + max_wait
    await sync_to_async(_refuse_transaction)()
    caller = Caller(callers_at(site), latest)
    await steps.run_async(caller.start())
    try:
        yield caller.slot_id
    finally:
        await asyncio.shield(steps.run_async(caller.end(clock.now())))
