"""throttle() and athrottle() run any code in a slot of its site.

    with throttle("api.example.com"):
        requests.get("https://api.example.com/orders")

weir.ratelimit.held describes how a caller gets its slot, and what the callers of a process share.
"""

from collections.abc import Callable, Iterator
from contextlib import AsyncContextDecorator, ContextDecorator, contextmanager
from functools import partial
from typing import Protocol, Self

from asgiref.sync import sync_to_async

from weir.postgres import own_commits
from weir.ratelimit import clock, site_names, slots
from weir.ratelimit.held import steps
from weir.ratelimit.held.caller import Caller
from weir.ratelimit.held.held_run import TakenSlot
from weir.ratelimit.held.process import callers_at
from weir.ratelimit.held.steps import Steps

_refuse_transaction = partial(own_commits.refuse_transaction, "throttle()")


class WaitingThrottle(Protocol):
    """Waits for the slot of one use, and ends the use. `Caller` is the one outside tests."""

    taken: TakenSlot

    def start(self) -> Steps: ...
    def end(self, at: float) -> Steps: ...


_stand_ins: list[Callable[[str, float], WaitingThrottle]] = []  # the last one is used


@contextmanager
def waited_by(caller: Callable[[str, float], WaitingThrottle]) -> Iterator[None]:
    """For tests: in this process, `caller` creates what waits, from a host and the latest start (on `clock`)."""
    _stand_ins.append(caller)
    try:
        yield
    finally:
        _stand_ins.remove(caller)


def throttle(site: str, max_wait: float = 15.0, *, shares_runs: bool = True) -> "Throttle":
    """Wait for the site's next slot; no other process on any host gets it. `with` yields the slot's id.

    Send the request first in the body. If the body has to wait for something before the request, pass
    `shares_runs=False`: other callers of this process that share its run count the interval from the beginning of the
    body, not from the request.

    Raises SlotTooFar, without waiting, if the start is more than `max_wait` seconds away from the call; ValueError for
    a `max_wait` outside 0 to 100 years; and TransactionManagementError inside a transaction, which would hold its locks
    during the wait.
    """
    return Throttle(site, max_wait, shares_runs=shares_runs)


def athrottle(site: str, max_wait: float = 15.0) -> "AsyncThrottle":
    """Throttle for asyncio: it does not block the event loop. Cancelling the wait gives the slot back."""
    return AsyncThrottle(site, max_wait)


class _Use:
    """The use of one slot of a site, in one `with`."""

    def __init__(self, site: str, max_wait: float, *, shares_runs: bool = True) -> None:
        self._site = site
        self._max_wait = max_wait
        self._shares_runs = shares_runs
        self._caller: WaitingThrottle | None = None

    def _recreate_cm(self) -> Self:
        """Return a new object for the next call of a decorated function, which contextlib asks for."""
        return type(self)(self._site, self._max_wait, shares_runs=self._shares_runs)

    def _new_caller(self, latest: float) -> WaitingThrottle:
        if self._caller:
            raise RuntimeError("What throttle() returns is for one `with`: call it again for the next one.")
        if _stand_ins:
            self._caller = _stand_ins[-1](site_names.canonical(self._site), latest)
        else:
            self._caller = Caller(callers_at(self._site, shared=self._shares_runs), latest)
        return self._caller


class Throttle(_Use, ContextDecorator):
    """What throttle() returns."""

    def __enter__(self) -> int:
        slots.check_max_wait(self._max_wait)
        _refuse_transaction()
        caller = self._new_caller(clock.now() + self._max_wait)
        steps.run(caller.start())
        taken = caller.taken
        slot_id = taken.id
        taken.has_begun = True  # the last thing before the body: no call may follow it
        return slot_id

    def __exit__(self, *_raised: object) -> None:
        if self._caller:
            steps.run(self._caller.end(clock.now()))


class AsyncThrottle(_Use, AsyncContextDecorator):
    """What athrottle() returns."""

    async def __aenter__(self) -> int:
        slots.check_max_wait(self._max_wait)
        latest = clock.now() + self._max_wait
        await sync_to_async(_refuse_transaction)()
        caller = self._new_caller(latest)
        await steps.run_async(caller.start())
        taken = caller.taken
        slot_id = taken.id
        taken.has_begun = True  # as above
        return slot_id

    async def __aexit__(self, *_raised: object) -> None:
        if self._caller:
            await steps.run_async(self._caller.end(clock.now()))
