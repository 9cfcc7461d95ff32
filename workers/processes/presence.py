"""This process' row in the table of processes, and the heartbeat that it writes there.

The loop that does the work writes the heartbeat, or a thread on its behalf that knows when the loop last turned. So a
process that is frozen, or whose loop hangs, writes no heartbeat, and its state is `silent` after SILENT_AFTER_S. A
process that cannot reach PostgreSQL looks the same, and does no work either.
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
GAP_S: Final = 5.0  # between two heartbeats: if it is longer, the process, the network or PostgreSQL stood still

# Each statement returns the id of the row that it has written or deleted.
BEGIN = Statement("begin", returns=int, commits=True, prepare=True)
END = Statement("end", returns=int, commits=True, prepare=True)
HEARTBEAT = Statement("heartbeat", returns=int, commits=True, prepare=True)


@dataclass(kw_only=True)
class Presence:
    """The row of one loop: of a worker, of a fetcher, or of beat, which may run in the process of a worker.

    Thread-safe. No method raises an error: if PostgreSQL is away, a heartbeat is skipped, and the next one is tried.
    """

    kind: str
    name: str
    id: int | None = None
    is_handed_over: bool = False  # True: a loop that the worker has started writes the heartbeats now
    _noted_at: float = float("-inf")  # of time.monotonic()
    _has_ended: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _file: LivenessFile = field(init=False)

    def __post_init__(self) -> None:
        self._file = LivenessFile(name=self.name)

    def show_life(self) -> None:
        """Touch the process' liveness file. The loop that does the work calls this; it waits for no server."""
        self._file.touch()

    def heartbeat(self, *, holds: int, ago_s: float = 0.0) -> None:
        """Record that the loop turned `ago_s` ago; do nothing if the last heartbeat was less than two seconds ago."""
        with self._lock:
            if self._has_ended or time.monotonic() < self._noted_at + HEARTBEAT_EVERY_S:
                return
            self._noted_at = time.monotonic()
            self._note(holds, ago_s)
            self._look_at_history()

    def stop(self, *, holds: int) -> None:
        """Record that this process was asked to end. Its heartbeats go on while it finishes the work that it holds."""
        with self._lock:
            self._note(holds, 0.0, stops=True)

    def end(self) -> None:
        """Delete the row and the liveness file, because this process ends in order."""
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
        """Return the id of the written row, None if there is no such row, and the old id if PostgreSQL is away."""
        try:
            ids = statement(**parameters)
        except Error as error:
            log.warning("heartbeat_not_noted", error=str(error))
            sessions.leave(connection)
            return self.id
        return ids[0] if ids else None


_presence: Presence | None = None


def begin(kind: str, name: str) -> Presence:
    """Make the presence of this process, a worker. Its first heartbeat writes the row."""
    global _presence  # noqa: PLW0603  one for each process is what this function is for
    _presence = Presence(kind=kind, name=name)
    return _presence


def of_this_process() -> Presence | None:
    """Return the presence of this process if it is a worker; None in other processes, which hold nothing."""
    return _presence


def current_id() -> int | None:
    """Return the id of this process' row, which marks in other tables what this process holds; None without a row."""
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
