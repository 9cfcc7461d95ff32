"""The state of the processes: alive, stopping, silent or gone; and whether one is lost, so that its work is taken back.

Also the longest round trip to PostgreSQL, which affects the slots that are reserved (ratelimit/round_trips.py).
"""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from typing import Final, NamedTuple

from weir.postgres import batches
from weir.postgres.statements import Statement
from weir.workers.processes import kinds
from weir.workers.processes.presence import GAP_S

SILENT_AFTER_S: Final = 8.0  # without a heartbeat: four are missing. A frozen process is found within ten seconds
# Seconds of heartbeats without a gap that make a process a witness. This is longer than a process needs to reach
# PostgreSQL after an outage: an attempt to connect that hangs (5 s), or a silently cut connection (5 s), and a new one.
WITNESS_AFTER_S: Final = 20.0
FORGOTTEN_AFTER_S: Final = 3_600.0
FAR_FOR_S: Final = 30.0  # how long after its last heartbeat a process' round trips count
BATCH: Final = 1_000


class ProcessStatus(NamedTuple):
    """A known process, and its state at the time of the query."""

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
    is_lost: bool  # it is silent, although it could have written a heartbeat
    state: str  # alive | stopping | silent | gone

    @property
    def kinds(self) -> tuple[str, ...]:
        """Each kind of the process; a worker has several if it consumes several queues."""
        return kinds.split(self.kind)

    @property
    def runs(self) -> bool:
        """Whether the process goes on, even if only to finish the work that it has begun."""
        return self.state in {"alive", "stopping"}


LONGEST_ROUND_TRIP = Statement("longest_round_trip", returns=float, commits=False)
PURGE = Statement("purge", returns=int, commits=True)
STATUS = Statement("status", row=ProcessStatus, commits=False)


def processes() -> list[ProcessStatus]:
    """Return all processes that are known. Reads only."""
    bounds = {"silent": SILENT_AFTER_S, "gap": GAP_S, "witness": WITNESS_AFTER_S}
    return STATUS(**bounds)


def by_kind(known: Iterable[ProcessStatus]) -> Counter[str]:
    """Return the number of processes of each kind. A process with several kinds counts for each."""
    return Counter(kind for process in known for kind in process.kinds)


def lost() -> dict[int, str]:
    """Return the ids and names of lost processes: they are frozen, cut off or dead, although PostgreSQL was there."""
    return {process.id: process.name for process in processes() if process.is_lost}


def longest_round_trip_s() -> float:
    """Return the longest round trip to PostgreSQL that a process has reported lately."""
    [longest_s] = LONGEST_ROUND_TRIP(lives=FAR_FOR_S)
    return longest_s


def purge() -> int:
    """Delete the rows of processes that have had no heartbeat for an hour; return how many were deleted."""
    return batches.delete(PURGE, batch=BATCH, older_than=FORGOTTEN_AFTER_S)
