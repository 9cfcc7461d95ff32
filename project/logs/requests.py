"""The correlation id of a web request: that of `X-Request-ID`, or a new one. The answer has it in the same header.

django-structlog's middleware logs the request, with the address of its client. What it calls `request_id` is a new id
for each request.
"""

from typing import Any

import structlog
from django.http import HttpRequest, HttpResponse
from django_structlog import signals

from weir.ops.clients import client_of
from weir.workers.tracing import correlation

HEADER = "X-Request-ID"


def name_requests() -> None:
    """Give the id of each web request to its log lines, to what it asks for, and to its answer."""
    signals.bind_extra_request_metadata.connect(_bind)
    signals.bind_extra_request_finished_metadata.connect(_answer)
    signals.update_failure_response.connect(_answer)


def _bind(request: HttpRequest, **_signal: object) -> None:
    made: dict[str, Any] = structlog.contextvars.get_contextvars()
    # A header that is not safe is left out, even from the log.
    correlation.bind(correlation.safe(request.headers.get(HEADER)) or made["request_id"])
    structlog.contextvars.unbind_contextvars("request_id")  # one thing has one name
    # By itself, django-structlog believes any header that names an address.
    structlog.contextvars.bind_contextvars(ip=str(client_of(request) or ""))


def _answer(response: HttpResponse, **_signal: object) -> None:
    response[HEADER] = correlation.current()
