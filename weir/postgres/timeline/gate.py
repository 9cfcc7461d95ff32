"""The gate: PostgreSQL grants nothing while it may have forgotten what it granted before.

A database forgets commits when a backup is restored, or when a standby that lacks the last commits is promoted. Then
the database would grant again what it had granted in the lost commits. So each statement that grants something asks
`weir_timeline_is_known(%(known_generation)s, %(clock)s)`, which raises an error if

- the timeline of the write-ahead log is not the one that Weir has seen: PostgreSQL was promoted, or restored; or
- the database is in another cluster, or was created anew: it is a copy; or
- the row's generation is lower than one that this process has seen: the database went back on the same timeline, as
  with a snapshot of the disk; or
- a recovery has begun and not ended; or
- PostgreSQL's clock does not show what this process expects from its last reading (steps.py): the clock was stepped, or
  the statement arrived late.

The generation is a number that grows every second or two while processes run. Each process remembers the highest
generation that it has seen. So does Redis, the witness, which each process asks once a second (workers/recovery).
Callers get the same error as when the database is away: they wait, and try again.
"""

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

from django.db import OperationalError, connection
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg.types.range import TimestamptzRange
from typing_extensions import TypeVar

from weir.postgres.statements import Statement, execute
from weir.postgres.timeline import steps
from weir.postgres.timeline.seen import Seen
from weir.postgres.timeline.steps import ClockReading

EVERY_S: Final = 1.0  # how often the generation grows, and how often the witness is asked
# A process that was idle for this time waits for the witness's answer: the process may know only generations from
# before the lost commits.
IDLE_S: Final = 5.0
LEASE_S: Final = 30.0  # the lease of a recovery, which each batch renews
# A recovery raises the generation by this number, which takes it beyond any generation that a process may have seen.
JUMP: Final = 10**9


Witness = Callable[[int], int]
Row = TypeVar("Row", bound=tuple[Any, ...])


@dataclass(kw_only=True, slots=True)
class _Memory:
    """What this process has seen, the witness that knows what others have seen, and the function that settles steps."""

    generation: int = 0
    witness: Witness | None = None
    asked_at: float = float("-inf")  # of time.monotonic()
    reading: ClockReading | None = None  # the last reading of PostgreSQL's clock, or the last before an unsettled step
    step_s: float = 0.0  # the step of that clock that is not settled yet
    settle: Callable[[], None] | None = None
    lease: UUID | None = None  # of the recovery that this process carries out
    lock: threading.Lock = field(default_factory=threading.Lock)  # protects the reading
    asking: threading.Lock = field(default_factory=threading.Lock)  # held while an idle process asks the witness


_memory = _Memory()


def _have_own_locks() -> None:
    _memory.lock, _memory.asking = threading.Lock(), threading.Lock()


os.register_at_fork(after_in_child=_have_own_locks)  # in a child, no thread would release a held lock


class LeaseLost(OperationalError):
    """Another process has taken the lease since. That process continues this recovery, or has found another fault."""


class Closed(NamedTuple):
    """The reason why the gate is closed, empty if it is open; if a clock step is the reason, its seconds."""

    closed_because: str
    step_s: float | None
    lease_token: UUID


class ClockRow(NamedTuple):
    """The time by PostgreSQL's clock, the number of its steps that were settled, and the row's generation."""

    clock_s: float
    steps: int
    generation: int


BEGIN = Statement("begin", commits=False)
CLOCK = Statement("clock", row=ClockRow, commits=True, prepare=True)
CLOSE = Statement("close", row=Closed, commits=True)
LOOK = Statement("look", row=Seen, commits=True, prepare=True)
OPEN = Statement("open", returns=int, commits=False)
RENEW = Statement("renew", commits=True)
REQUIRE = Statement("require", commits=True, prepare=True)
SETTLE_STEP = Statement("settle_step", returns=float, commits=False)
TAKE_TIME = Statement("take_time", commits=False)


def set_witness(witness: Witness) -> None:
    """Register the witness, which gets this process's generation, and returns the highest that any process told it.

    The witness returns 0 if it knows none. It is called in a thread of its own; a process that was idle for long calls
    it in the calling thread, before the statement.
    """
    _memory.witness = witness


def set_settler(settle: Callable[[], None]) -> None:
    """Register the function to call when a reading shows that PostgreSQL's clock was stepped; it must not wait."""
    _memory.settle = settle


def remember(generation: int) -> None:
    """Record that this process has seen the generation, unless it has seen a higher one before."""
    _memory.generation = max(_memory.generation, generation)


def require() -> None:
    """Only ask the gate, before expired leases are judged; raises the error that a granting statement would raise."""
    REQUIRE()


def known_generation() -> int:
    """Return the highest generation that this process has seen, or that the witness had seen some seconds ago.

    A process that is busy does not wait for the witness, which may be away.
    """
    now = time.monotonic()
    if _memory.witness and now > _memory.asked_at + EVERY_S:
        if now > _memory.asked_at + IDLE_S:
            _ask_after_idleness()
        else:
            _memory.asked_at = now
            if not _started(threading.Thread(target=exchange, name="witness", daemon=True)):
                exchange()
    return _memory.generation


def _ask_after_idleness() -> None:
    """Ask the witness; all threads that call this meanwhile wait for the same answer."""
    with _memory.asking:
        if time.monotonic() > _memory.asked_at + IDLE_S:
            exchange()
            _memory.asked_at = time.monotonic()


def _started(thread: threading.Thread) -> bool:
    """Start a thread; returns False if the process can have no more."""
    try:
        thread.start()
    except RuntimeError:
        return False
    return True


def exchange() -> None:
    """Tell the witness what this process has seen, and learn what others have seen."""
    if _memory.witness:
        remember(_memory.witness(_memory.generation))


def forget() -> None:
    """Forget everything, as if the process had just started."""
    _memory.generation, _memory.asked_at = 0, float("-inf")
    _memory.reading, _memory.step_s = None, 0.0


def look() -> Seen:
    """Let the generation grow, if a second has passed, and return the row and PostgreSQL's history.

    Raises database errors.
    """
    asked_at = steps.now()
    seen = _only(LOOK(known=known_generation(), every=EVERY_S))
    _note(ClockReading(asked_at, steps.now(), seen.clock_s, seen.steps, seen.generation))
    if seen.is_known:
        remember(seen.generation)
    return seen


def begin(database: BaseDatabaseWrapper | None = None) -> None:
    """Write the row if it is missing, with a higher generation than any process may remember.

    Asks the witness if this process was idle, but never in another thread: such a thread would ask Redis between two of
    a project's tests.
    """
    was_idle = time.monotonic() > _memory.asked_at + IDLE_S
    generation = known_generation() if was_idle else _memory.generation
    execute(BEGIN, {"generation": generation + JUMP}, database)


def _only(rows: list[Row]) -> Row:
    """Return the row; raises a database error if there is none, so that processes wait until it is written."""
    if not rows:
        raise OperationalError("The table weir_timeline_knowntimeline is empty: `manage.py migrate` writes its row.")
    return rows[0]


def step_s() -> float:
    """Return the step of PostgreSQL's clock that this process has seen, in seconds; 0 once the step is settled."""
    return _memory.step_s


def clock() -> TimestamptzRange | None:
    """Return the times that PostgreSQL's clock may show when a statement that is sent now arrives; None: any time.

    Reads the clock once a second, but not within a transaction. Raises database errors.
    """
    last = _memory.reading
    if (last is None or steps.now() > last.answered_at + EVERY_S) and not connection.in_atomic_block:
        read_clock()
    return steps.expected(_memory.reading, steps.now()) if _memory.reading else None


def latest_expected() -> datetime | None:
    """Return the latest time that PostgreSQL's clock may show now, unless it was stepped; None: it was not read yet."""
    return steps.expected(_memory.reading, steps.now()).upper if _memory.reading else None


def read_clock() -> None:
    """Read PostgreSQL's clock; if it was stepped, call the function that settles steps. Raises database errors."""
    asked_at = steps.now()
    read = _only(CLOCK())
    _note(ClockReading(asked_at, steps.now(), read.clock_s, read.steps, read.generation))
    if _memory.step_s and _memory.settle:
        _memory.settle()


def _note(reading: ClockReading) -> None:
    """Keep a reading of PostgreSQL's clock; if it shows that the clock was stepped, keep the reading before it."""
    with _memory.lock:
        last = _memory.reading
        if last and last.asked_at > reading.asked_at:
            return
        _memory.step_s = steps.step_s(last, reading) if last and last.steps == reading.steps else 0.0
        if not _memory.step_s:
            _memory.reading = reading


def close(because: str, seen: Seen, step_s: float | None = None) -> Closed | None:
    """Take the lease of a recovery and, if there is a reason, close the gate; return the reason why it is closed.

    `step_s` is the step of PostgreSQL's clock in seconds, if that is the reason. Returns None if another process has
    the lease, or has settled the fault that was `seen`.
    """
    parameters = {"because": because, "lease": LEASE_S, "step": step_s}
    parameters |= {"steps": seen.steps, "generation": seen.generation, "jump": JUMP}
    rows = CLOSE(**parameters)
    _memory.lease = rows[0].lease_token if rows else None
    return rows[0] if rows else None


def settle_step() -> float | None:
    """Open the gate, in the caller's transaction, which also corrects all times; returns the step in seconds.

    Returns None if another process has settled the step. No other process can settle one until that transaction ends.
    """
    steps_s = SETTLE_STEP()
    if not steps_s:
        return None
    # With millions of rows, correcting the times takes longer than the limit of a statement: it would be begun again
    # and again, and never end.
    TAKE_TIME()
    return steps_s[0]


def renew() -> bool:
    """Renew the lease of the recovery; returns False if another process has taken it since `close`."""
    return bool(RENEW(lease=LEASE_S, token=_memory.lease))


def open_gate(seen: Seen, *, went_back: bool) -> int:
    """Make the history that was `seen` the known one; runs in the open transaction, if there is one.

    Returns the generation. Raises LeaseLost.
    """
    parameters: dict[str, object] = {"timeline": seen.actual_timeline, "cluster": seen.actual_cluster}
    parameters |= {"went_back": went_back, "known": known_generation(), "jump": JUMP, "token": _memory.lease}
    rows = OPEN(**parameters)
    if not rows:
        raise LeaseLost("Another process has taken the lease, and settles this.")
    return rows[0]
