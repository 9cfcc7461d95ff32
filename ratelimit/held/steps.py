"""Steps: what a caller of `throttle` waits for, be it a thread or a task of an event loop.

The protocol (weir.ratelimit.held.caller) yields steps. `run` takes the steps in a thread, `run_async` in a task. If a
step raises an exception, the exception is thrown into the protocol. A call that has begun is completed, however often
the task is cancelled meanwhile: the database may have reserved a slot already.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Generator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from asgiref.sync import sync_to_async

from weir.ratelimit.held.held_run import HeldRun

# A timer is usually late by no more than these seconds. A site with many starts a second would lose them at each start.
TIMER_S = 0.0003
FAST_S = 0.02  # the longest interval for which late timers matter


@dataclass(frozen=True, slots=True)
class Call:
    """Call a function that asks the database."""

    function: Callable[[], object]

    def take(self) -> None:
        self.function()

    async def take_async(self) -> None:
        calling = asyncio.ensure_future(sync_to_async(self.function)())
        cancelled: asyncio.CancelledError | None = None
        while not calling.done():
            try:
                await asyncio.wait([calling])
            except asyncio.CancelledError as cancellation:
                cancelled = cancellation
        raised = calling.exception()
        if cancelled:
            raise cancelled from raised
        if raised:
            raise raised


@dataclass(frozen=True, slots=True)
class Sleep:
    """Sleep this many seconds, or until another caller of the run starts, or the run is recalled."""

    held: HeldRun
    seconds: float

    def take(self) -> None:
        if self.held.size == 1:
            time.sleep(self.seconds)
        elif self.held.interval_s > FAST_S or self.seconds > TIMER_S:
            woken = threading.Event()
            with self.held.sleeping(woken.set):
                woken.wait(self._timer_s())
        else:
            time.sleep(0)

    async def take_async(self) -> None:
        if self.held.size == 1:
            await asyncio.sleep(self.seconds)
        elif self.held.interval_s > FAST_S or self.seconds > TIMER_S:
            woken = asyncio.Event()
            wake = partial(_call_soon, asyncio.get_running_loop(), woken.set)
            with self.held.sleeping(wake), suppress(TimeoutError):
                async with asyncio.timeout(self._timer_s()):
                    await woken.wait()
        else:
            await asyncio.sleep(0)

    def _timer_s(self) -> float:
        return self.seconds - TIMER_S if self.held.interval_s <= FAST_S else self.seconds


Step = Call | Sleep
Steps = Generator[Step, None, None]


def run(steps: Steps) -> None:
    """Take the steps in this thread."""
    raised: BaseException | None = None
    while (step := _next(steps, raised)) is not None:
        raised = None
        try:
            step.take()
        except BaseException as error:  # noqa: BLE001  the protocol raises it again
            raised = error


async def run_async(steps: Steps) -> None:
    """Take the steps in this task."""
    raised: BaseException | None = None
    while (step := _next(steps, raised)) is not None:
        raised = None
        try:
            await step.take_async()
        except BaseException as error:  # noqa: BLE001  the protocol raises it again
            raised = error


def _next(steps: Steps, raised: BaseException | None) -> Step | None:
    try:
        return next(steps) if raised is None else steps.throw(raised)
    except StopIteration:
        return None


def _call_soon(loop: asyncio.AbstractEventLoop, call: Callable[[], object]) -> None:
    """Let the loop make this call. In a loop that was closed while its tasks waited, there is no task to wake."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(call)
