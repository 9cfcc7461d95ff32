"""/healthz: whether PostgreSQL answers this process, and which queues are silent."""

from django.db import Error, connection
from django.http import HttpRequest, JsonResponse

from workers.heartbeats import silent_queues


def healthz(_request: HttpRequest) -> JsonResponse:
    """Answer 200 when the database answers, else 503. Silent queues are reported, but are not this process' fault."""
    try:
        connection.ensure_connection()
        silent = silent_queues()
    except Error:
        return JsonResponse({"database": "unreachable"}, status=503)
    return JsonResponse({"database": "ok", "silent_queues": silent})
