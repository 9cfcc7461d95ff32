"""The state of the processes: alive, silent, or lost, so that what they hold may be taken back.

Also how far they are from PostgreSQL, which affects what is reserved for them (ratelimit/round_trips.py).
"""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from typing import Final, NamedTuple

from weir.postgres import batches
from weir.postgres.statements import Statement
from weir.workers.processes import kinds
from weir.workers.processes.presence import GAP_S

SILENT_AFTER_S: Final = 8.0  # without a heartbeat: four are missing. So a frozen process is known within ten seconds
# Seconds without a gap that make another process a witness. More than a process needs to reach PostgreSQL when that is
# back: an attempt to connect that hangs (5 s), or a connection that was cut silently (5 s), and a new one.
WITNESS_AFTER_S: Final = 20.0
FORGOTTEN_AFTER_S: Final = 3_600.0
FAR_FOR_S: Final = 30.0  # how long after its last heartbeat the round trips of a process count
BATCH: Final = 1_000


class ProcessStatus(NamedTuple):
    """A process that is known, and how it does, at the moment at which the database was asked."""

    id: int
    kind: str
    name: str
    host: str
    pid: int
    version: str
    holds: int
    started_at: datetime
    turned_at: datetime
    age_s: float
    silent_s: float  # since its last heartbeat
    is_lost: bool  # it is silent, although it could have had a heartbeat
    state: str  # alive | stopping | silent | gone

    @property
    def kinds(self) -> tuple[str, ...]:
        """Each kind that it is: a worker may consume several queues."""
        return kinds.split(self.kind)

    @property
    def runs(self) -> bool:
        """Whether it goes on, even if only to end what it has begun."""
        return self.state in {"alive", "stopping"}


LONGEST_ROUND_TRIP = Statement("longest_round_trip", returns=float, commits=False)
PURGE = Statement("purge", returns=int, commits=True)
STATUS = Statement("status", row=ProcessStatus, commits=False)


def processes() -> list[ProcessStatus]:
    """Return all processes that are known. Reads only."""
    bounds = {"silent": SILENT_AFTER_S, "gap": GAP_S, "witness": WITNESS_AFTER_S}
    return STATUS(**bounds)


def by_kind(known: Iterable[ProcessStatus]) -> Counter[str]:
    """Return how many there are of each kind. A process that is of several kinds counts for each."""
    return Counter(kind for process in known for kind in process.kinds)


def lost() -> dict[int, str]:
    """Return the ids and names of the processes that are frozen, cut off or dead, although PostgreSQL was there."""
    return {process.id: process.name for process in processes() if process.is_lost}


def longest_round_trip_s() -> float:
    """Return the longest round trip to PostgreSQL that a process has reported lately."""
    [longest_s] = LONGEST_ROUND_TRIP(lives=FAR_FOR_S)
    return longest_s


def purge() -> int:
    """Delete the rows of processes that have had no heartbeat for an hour; returns how many."""
    return batches.delete(PURGE, batch=BATCH, older_than=FORGOTTEN_AFTER_S)
