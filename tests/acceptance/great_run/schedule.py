"""The faults of the great run, one at a time, each for some seconds, while processes are killed."""

import random
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack

import psutil

from tests.acceptance.faults import faults
from tests.acceptance.faults.faults import Fault, fault
from tests.acceptance.great_run.stage import NAMES, Stage

EVERY_S = 6.0  # from the end of one to the next, on average
HOLD_S = (1.0, 6.0)


class FaultSchedule:
    """Has a fault begin and end when it is time; `counts` has how often each was there."""

    def __init__(self, stage: Stage, chance: random.Random) -> None:
        self.counts: Counter[str] = Counter()
        self.current: Fault | None = None
        self._stage = stage
        self._chance = chance
        self._bag: list[Fault] = []
        self._ending = ExitStack()  # ends the current one
        self._turn_at = time.monotonic() + EVERY_S / 2

    def turn(self) -> None:
        """Begin or end a fault, if it is time."""
        if time.monotonic() < self._turn_at:
            return
        if self.current:
            self.end()
            return
        if not self._bag:
            self._bag = every(self._stage)
            self._chance.shuffle(self._bag)
        self.current = self._bag.pop()
        self._ending.enter_context(self.current.happens())
        self.counts[self.current.name] += 1
        self._turn_at = time.monotonic() + self._chance.uniform(*HOLD_S)

    def end(self) -> None:
        """End the fault that is there."""
        self._ending.close()
        self.current = None
        self._turn_at = time.monotonic() + self._chance.expovariate(1 / EVERY_S)


def every(stage: Stage) -> list[Fault]:
    """Return all faults. The sites go on: they are the judge of what is early, by the clock of their own log."""
    return [
        *(faults.frozen(stage, name) for name in NAMES),
        faults.redis_full(stage),
        faults.redis_read_only(stage),
        faults.redis_frozen(stage),
        faults.postgres_frozen(stage),
        faults.postgres_read_only(stage),
        faults.connections_used_up(stage),
        redis_emptied(stage),
        mail_server_frozen(stage),
    ]


@fault("Redis is emptied (FLUSHALL)")
def redis_emptied(stage: Stage) -> Iterator[None]:
    """Let Redis forget all it had, at once."""
    stage.broker().flushall()
    yield


@fault("the mail server is frozen")
def mail_server_frozen(stage: Stage) -> Iterator[None]:
    """Let nobody answer what the kernel takes for the mail server."""
    with faults.stopped(psutil.Process(stage.mails.pid)):
        yield
