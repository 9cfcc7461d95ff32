"""The faults of the great run, one at a time, each for some seconds, while processes are killed."""

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable

import psycopg

from tests.acceptance import fault_chain
from tests.acceptance.fault_chain import Fault
from tests.acceptance.great_run.stage import NAMES, Stage

EVERY_S = 6.0  # from the end of one to the next, on average
HOLD_S = (1.0, 6.0)
TAKEN_WITHIN_S = 5.0


class FaultSchedule:
    """Has a fault begin and end when it is time; `counts` has how often each was there."""

    def __init__(self, stage: Stage, chance: random.Random) -> None:
        self.counts: Counter[str] = Counter()
        self.current: Fault | None = None
        self._stage = stage
        self._chance = chance
        self._bag: list[Fault] = []
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
        self.current.begin()
        self.counts[self.current.name] += 1
        self._turn_at = time.monotonic() + self._chance.uniform(*HOLD_S)

    def end(self) -> None:
        """End the fault that is there."""
        if self.current:
            self.current.end()
        self.current = None
        self._turn_at = time.monotonic() + self._chance.expovariate(1 / EVERY_S)


def every(stage: Stage) -> list[Fault]:
    """Return all faults. The sites go on: they are the judge of what is early, by the clock of their own log."""
    return [
        *(fault_chain.frozen(stage, name) for name in NAMES),
        fault_chain.redis_full(stage),
        fault_chain.redis_read_only(stage),
        fault_chain.postgres_frozen(stage),
        fault_chain.postgres_read_only(stage),
        Fault(name="Redis is emptied (FLUSHALL)", begin=stage.broker().flushall, end=lambda: None),
        _stopped("the broker hangs (SIGSTOP)", lambda: stage.valkey.pid),
        _stopped("the mail server hangs (SIGSTOP)", lambda: stage.mails.pid),
        _connections_used_up(stage),
    ]


def _stopped(name: str, pid: Callable[[], int]) -> Fault:
    return Fault(name=name, begin=lambda: os.kill(pid(), signal.SIGSTOP), end=lambda: os.kill(pid(), signal.SIGCONT))


def _connections_used_up(stage: Stage) -> Fault:
    """Take all sessions that PostgreSQL has left."""
    taken: list[psycopg.Connection] = []

    def begin() -> None:
        give_up_at = time.monotonic() + TAKEN_WITHIN_S
        while time.monotonic() < give_up_at:
            try:
                taken.append(psycopg.connect(host=str(stage.server.folder), user="postgres", dbname="weir"))
            except psycopg.OperationalError as error:  # perhaps it recovers
                if "too many clients" in str(error):
                    return

    def end() -> None:
        for session in taken:
            session.close()

    return Fault(name="connections are used up", begin=begin, end=end)
