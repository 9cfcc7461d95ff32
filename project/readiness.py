"""/readyz: whether this process can do its work now; without a login, as /livez and /healthz.

One thread asks the database for all requests. A request waits a second for the answer, and then says that the database
does not answer. An answer is repeated for a second.
"""

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotInTime
from dataclasses import dataclass
from typing import Final, NamedTuple

import structlog
from django.db import DatabaseError, InterfaceError, connection, transaction
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, JsonResponse

from weir.postgres.own_commits import commits_itself
from weir.postgres.statements import Statement

log = structlog.get_logger(__name__)

FRESH_S: Final = 1.0
WITHIN_S: Final = 1.0
AWAY: Final = "PostgreSQL does not answer within a second."
FAILED: Final = "The check failed: the log has the error."


class Writes(NamedTuple):
    """Whether PostgreSQL takes writes from this role."""

    is_standby: bool
    is_read_only: bool


BOUNDS = Statement("bounds", commits=False)
WRITES = Statement("writes", row=Writes, commits=False)


@dataclass(frozen=True, kw_only=True)
class ReadinessAnswer:
    """Why this process cannot work; "" if it can."""

    at: float  # of time.monotonic()
    reason: str


class Readiness:
    """The last answer, or the check that runs now."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="readiness")
        self._lock = threading.Lock()
        self._running: Future[ReadinessAnswer] | None = None
        self._is_migrated = False  # checked until it is true

    def reason(self) -> str:
        """Return why this process cannot work, within a second; "" if it can."""
        try:
            return self._asked().result(WITHIN_S).reason
        except NotInTime:
            return AWAY

    def _asked(self) -> "Future[ReadinessAnswer]":
        with self._lock:
            running = self._running
            is_old = running is None or (running.done() and time.monotonic() > running.result().at + FRESH_S)
            if running is None or is_old:
                running = self._running = self._threads.submit(self._check)
            return running

    def _check(self) -> ReadinessAnswer:
        try:
            reason = self._look()
        except (DatabaseError, InterfaceError):
            reason = AWAY
        except Exception:  # such as no file to open for a migration; it would be raised for ever
            log.exception("readiness_check_failed")
            reason = FAILED
        finally:
            connection.close()
        return ReadinessAnswer(at=time.monotonic(), reason=reason)

    def _look(self) -> str:
        with transaction.atomic():
            BOUNDS()
            [server] = WRITES()
            if server.is_standby:
                return "PostgreSQL is a standby, which takes no writes."
            if server.is_read_only:
                return "PostgreSQL is read-only for this role."
            self._is_migrated = self._is_migrated or _is_migrated()
        return "" if self._is_migrated else "Migrations are not applied: run manage.py migrate."


def _is_migrated() -> bool:
    executor = MigrationExecutor(connection)
    return not executor.migration_plan(executor.loader.graph.leaf_nodes())


_readiness = Readiness()


@commits_itself
def readyz(_request: HttpRequest) -> JsonResponse:
    """Answer 200 while this process can do its work, else 503 with a sentence, for a proxy that chooses processes."""
    reason = _readiness.reason()
    return JsonResponse({"ready": not reason, "reason": reason}, status=503 if reason else 200)
