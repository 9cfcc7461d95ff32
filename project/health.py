"""/livez and /healthz: whether this process answers, and whether PostgreSQL answers it; both without a login.

Any client may request them, as often as it likes. /livez asks no server. For /healthz one request at a time asks the
database, and all others get the last answer.
"""

import threading
import time
from dataclasses import dataclass, field

from django.db import Error, connection
from django.http import HttpRequest, JsonResponse

from project.front.heads import ALIVE
from weir.postgres.own_commits import commits_itself
from weir.workers.heartbeats import silent_queues

FRESH_S = 1.0  # how long an answer is repeated
HOLDS_S = 3.0  # how long an answer is repeated while another request asks the database


@dataclass(frozen=True, kw_only=True)
class _Answer:
    at: float = float("-inf")  # of time.monotonic()
    status: int = 503
    body: dict[str, object] = field(default_factory=lambda: {"database": "does not answer"})


class _Health:
    """The last answer. One thread at a time asks the database."""

    def __init__(self) -> None:
        self._asking = threading.Lock()
        self._last = _Answer()

    def answer(self) -> _Answer:
        """Return the last answer if it is at most FRESH_S old, else check now.

        While another thread checks, repeat the last answer up to HOLDS_S; then say that the database does not answer.
        """
        last = self._last
        if time.monotonic() < last.at + FRESH_S:
            return last
        if not self._asking.acquire(blocking=False):
            return last if time.monotonic() < last.at + HOLDS_S else _Answer(body={"database": "does not answer"})
        try:
            self._last = _check()
        finally:
            self._asking.release()
        return self._last


_health = _Health()


@commits_itself
def livez(_request: HttpRequest) -> JsonResponse:
    """Answer 200: this process takes requests. A supervisor must not restart it because the database is away."""
    return JsonResponse(ALIVE)  # `project.front.heads` answers the same before Django is asked


@commits_itself
def healthz(_request: HttpRequest) -> JsonResponse:
    """Answer 200 when the database answers, else 503. Silent queues are reported, but do not change the status."""
    answer = _health.answer()
    return JsonResponse(answer.body, status=answer.status)


def _check() -> _Answer:
    try:
        connection.ensure_connection()
        silent = silent_queues()
    except Error:
        return _Answer(at=time.monotonic(), status=503, body={"database": "unreachable"})
    return _Answer(at=time.monotonic(), status=200, body={"database": "ok", "silent_queues": silent})
