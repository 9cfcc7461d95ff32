"""Begins: a thread that commits, for the loop, that effects begin, each right before its request is written.

The loop asks as long before the slot as a commit usually takes, and goes on with other requests meanwhile. If the
commit takes longer than the slot lasts, nothing is written, and the effect is given back.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Final

from django.db import connection

from weir.logs.loggers import get_logger
from weir.postgres import sessions
from weir.ratelimit import clock
from weir.ratelimit.round_trips import RoundTrips
from weir.workers.effects.performing.held import HeldEffect, NotBegun
from weir.workers.fetches.jobs import Job

FIRST_S: Final = 0.02  # seconds before the slot, while no commit was measured
SPARE_S: Final = 0.002  # uvloop's timers count whole milliseconds
LONGEST_S: Final = 0.25  # half of what a fetcher relies on a confirmation (pacing.CONFIRMED_FOR_S)

log = get_logger(__name__)


class Begins:
    """The effects that one fetcher is about to begin. `begin` and `ahead_s` are for the loop."""

    def __init__(self) -> None:
        self._asked: SimpleQueue[tuple[HeldEffect, Future[None]] | None] = SimpleQueue()
        self._took = RoundTrips()
        self._thread: threading.Thread | None = None

    def ahead_s(self) -> float:
        """Return how many seconds before its slot an effect begins, so that its request is written in time."""
        return min(LONGEST_S, (self._took.expected_s() or FIRST_S) + SPARE_S)

    async def begin(self, job: Job, miss: Callable[[], None]) -> None:
        """Return when it is committed that the job's effect begins. Raises NotBegun: then nothing may be written.

        Calls `miss` if that takes longer than the job's run. If the job is cancelled meanwhile, the effect may begin
        all the same (HeldEffect.end_turn).
        """
        if (held := job.effect) is None:
            return
        self._start()
        asked_at, beginning = clock.now(), Future[None]()
        held.beginning = beginning
        self._asked.put((held, beginning))
        waited = asyncio.wrap_future(beginning)
        waited.add_done_callback(_heard)
        await asyncio.wait({waited}, timeout=max(0.0, job.run.start_until - asked_at))
        if not waited.done():
            miss()
        try:
            await waited
        except NotBegun:
            raise
        except Exception as error:  # PostgreSQL is away: it may have begun, and is given back
            log.warning("effect_not_begun", **job.named, error=type(error).__name__)
            raise NotBegun from error
        self._took.note(clock.now() - asked_at)

    def close(self) -> None:
        """Begin nothing more. The thread ends by itself."""
        self._asked.put(None)

    def _start(self) -> None:
        """Start the thread with the first effect: most fetchers have none."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="fetch-begins", daemon=True)
            self._thread.start()

    def _work(self) -> None:
        while asked := self._asked.get():
            held, beginning = asked
            if beginning.set_running_or_notify_cancel():
                try:
                    held.begin()
                except NotBegun as error:
                    beginning.set_exception(error)
                except BaseException as error:  # noqa: BLE001  the job gets it
                    sessions.leave(connection)
                    beginning.set_exception(error)
                else:
                    beginning.set_result(None)
        connection.close()


def _heard(waited: "asyncio.Future[None]") -> None:
    """Take the error of a begin: nobody does if its job was cancelled meanwhile, and asyncio would log it."""
    if not waited.cancelled():
        waited.exception()
