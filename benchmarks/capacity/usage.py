"""What PostgreSQL counts of itself: commits, write-ahead log, sessions, and the processor that it used."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from django.conf import settings
from django.db import connection

from benchmarks.fetches import cpu
from project import embedded

_SEEN = """
    SELECT xact_commit, pg_current_wal_insert_lsn() - '0/0'::pg_lsn
    FROM pg_stat_database WHERE datname = current_database()
"""
_SESSIONS = """
    SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()
"""


@contextmanager
def running_postgresql() -> Iterator[int]:
    """Yield the id of the process of the benchmark's PostgreSQL; RuntimeError if it does not run."""
    with embedded.servers(settings.EMBEDDED_HOME) as servers:
        if servers.postgres_pid is None:
            raise RuntimeError("The benchmark's PostgreSQL does not run.")
        yield servers.postgres_pid


class Usage(NamedTuple):
    """What was used in a second."""

    commits: float
    wal_bytes: float
    processors: float


class Meter:
    """What was used since the meter was made."""

    def __init__(self, postgresql: int) -> None:
        self._pid = postgresql
        self._began_at, self._began = time.monotonic(), self._seen()

    def a_second(self) -> Usage:
        """Return the means since the beginning."""
        lasted_s = time.monotonic() - self._began_at
        return Usage(*((now - then) / lasted_s for now, then in zip(self._seen(), self._began, strict=True)))

    def _seen(self) -> Usage:
        [(commits, wal_bytes)] = _rows(_SEEN)
        return Usage(float(commits), float(wal_bytes), cpu.used_s([self._pid]))


def sessions() -> int:
    """Return how many clients are connected, without this process' own session."""
    return int(_rows(_SESSIONS)[0][0])


def most_sessions() -> int:
    """Return how many sessions the server allows."""
    return int(_rows("SELECT current_setting('max_connections')")[0][0])


def _rows(query: str) -> list[tuple[str, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(query)
        found: list[tuple[str, ...]] = cursor.fetchall()
    return found
