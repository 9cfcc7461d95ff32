"""The steps of a caller of throttle(), where the task that takes them is cancelled."""

import asyncio
import threading
from contextlib import suppress

from weir.ratelimit.held.steps import Call


def test_a_call_that_was_begun_is_ended_however_often_its_task_is_cancelled() -> None:
    """The database may have reserved: who is cancelled learns what has to be given back."""
    begun, may_end, ended = threading.Event(), threading.Event(), threading.Event()

    def call() -> None:
        begun.set()
        may_end.wait(10)
        ended.set()

    async def main() -> None:
        calling = asyncio.create_task(Call(call).take_async())
        await asyncio.to_thread(begun.wait, 10)
        for _ in range(2):
            calling.cancel()
            await asyncio.sleep(0.01)
        may_end.set()
        with suppress(asyncio.CancelledError):
            await calling
        assert calling.cancelled()
        assert ended.is_set()

    asyncio.run(main())
