"""The correlation id of a web request: the value of its `X-Request-ID`, or a new id. The answer has the same header.

django-structlog's middleware logs the request, with the address of its client. Its `request_id`, a new id for each
request, is the correlation id if the header is missing or not safe.
"""

from typing import Any

import structlog
from django.http import HttpRequest, HttpResponse
from django_structlog import signals

from weir.ops.clients import client_of
from weir.workers.tracing import correlation

HEADER = "X-Request-ID"


def name_requests() -> None:
    """Put the id of each web request into its log lines, into the jobs that it requests, and into its answer."""
    signals.bind_extra_request_metadata.connect(_bind)
    signals.bind_extra_request_finished_metadata.connect(_answer)
    signals.update_failure_response.connect(_answer)


def _bind(request: HttpRequest, **_signal: object) -> None:
    made: dict[str, Any] = structlog.contextvars.get_contextvars()
    # A header whose value is not safe is ignored, and not even logged.
    correlation.bind(correlation.safe(request.headers.get(HEADER)) or made["request_id"])
    structlog.contextvars.unbind_contextvars("request_id")  # one thing has one name
    # By itself, django-structlog believes any header that names an address.
    structlog.contextvars.bind_contextvars(ip=str(client_of(request) or ""))


def _answer(response: HttpResponse, **_signal: object) -> None:
    response[HEADER] = correlation.current()
