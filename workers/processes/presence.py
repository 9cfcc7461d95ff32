"""This process' row in the table of processes, and the heartbeat that it writes there.

The loop that does the work writes it, or a thread on its behalf that knows when the loop last turned: a process that is
frozen, or whose loop hangs, writes none, and `status` says so after SILENT_AFTER_S. A process that cannot
reach PostgreSQL looks the same, and does no work either.
"""

import importlib.metadata
import os
import socket
import threading
import time
from dataclasses import dataclass, field
from functools import cache
from typing import Final

from django.db import Error, connection

from weir.logs.loggers import get_logger
from weir.postgres import sessions
from weir.postgres.statements import Statement
from weir.ratelimit import round_trips
from weir.workers.processes.liveness import LivenessFile
from weir.workers.recovery import watch

log = get_logger(__name__)

HEARTBEAT_EVERY_S: Final = 2.0
GAP_S: Final = 5.0  # between two heartbeats: if longer, the process, its way to PostgreSQL, or PostgreSQL was held up

# Each returns the id of the row that was written, or deleted.
BEGIN = Statement("begin", returns=int, commits=True, prepare=True)
END = Statement("end", returns=int, commits=True, prepare=True)
HEARTBEAT = Statement("heartbeat", returns=int, commits=True, prepare=True)


@dataclass(kw_only=True)
class Presence:
    """The row of one loop: a worker's or a fetcher's, or that of beat, which may be in the process of a worker.

    Thread-safe. No method raises: if PostgreSQL is away, the next heartbeat is recorded.
    """

    kind: str
    name: str
    id: int | None = None
    is_handed_over: bool = False  # to a loop that a worker started for its work: it sends the heartbeats from now on
    _noted_at: float = float("-inf")  # of time.monotonic()
    _has_ended: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _file: LivenessFile = field(init=False)

    def __post_init__(self) -> None:
        self._file = LivenessFile(name=self.name)

    def show_life(self) -> None:
        """Touch the process' file; for the loop that does the work, which waits for no server meanwhile."""
        self._file.touch()

    def heartbeat(self, *, holds: int, ago_s: float = 0.0) -> None:
        """Record that the loop turned `ago_s` ago; does nothing if it last did so less than two seconds ago."""
        with self._lock:
            if self._has_ended or time.monotonic() < self._noted_at + HEARTBEAT_EVERY_S:
                return
            self._noted_at = time.monotonic()
            self._note(holds, ago_s)
            self._look_at_history()

    def stop(self, *, holds: int) -> None:
        """Record that this process was asked to end; its heartbeat goes on while it ends what it holds."""
        with self._lock:
            self._note(holds, 0.0, stops=True)

    def end(self) -> None:
        """Forget this process, which ends in order."""
        self._file.remove()
        with self._lock:
            self._has_ended = True
            if self.id is not None:
                self._try(END, process=self.id)

    def _note(self, holds: int, ago_s: float, *, stops: bool = False) -> None:
        state = {"holds": holds, "round_trip": round_trips.of_process.expected_s()}
        if self.id is not None:
            self.id = self._try(HEARTBEAT, **state, process=self.id, ago=ago_s, gap=GAP_S, stops=stops)
        if self.id is None and not stops:
            process = {"kind": self.kind, "name": self.name, "host": host(), "pid": os.getpid()}
            self.id = self._try(BEGIN, **state, **process, version=_version())

    def _look_at_history(self) -> None:
        try:
            watch.look(self.name)
        except Error as error:
            log.warning("history_not_seen", error=str(error))
            sessions.leave(connection)

    def _try(self, statement: Statement[int], **parameters: object) -> int | None:
        """Return the id of the row that was written, None if none was, and the old id if PostgreSQL is away."""
        try:
            ids = statement(**parameters)
        except Error as error:
            log.warning("heartbeat_not_noted", error=str(error))
            sessions.leave(connection)
            return self.id
        return ids[0] if ids else None


_presence: Presence | None = None


def begin(kind: str, name: str) -> Presence:
    """Make the presence of this process, a worker; its row is written by its first heartbeat."""
    global _presence  # noqa: PLW0603  one for each process is what this function is for
    _presence = Presence(kind=kind, name=name)
    return _presence


def of_this_process() -> Presence | None:
    """Return the presence of this process, if it is a worker; None in others, which hold nothing."""
    return _presence


def current_id() -> int | None:
    """Return the id of this process' row, by which others know what it holds."""
    return _presence.id if _presence else None


@cache
def host() -> str:
    """Return the name of this host, or container."""
    return socket.gethostname()


@cache
def _version() -> str:
    try:
        return importlib.metadata.version("django-weir")
    except importlib.metadata.PackageNotFoundError:  # a checkout that was not installed
        return ""
