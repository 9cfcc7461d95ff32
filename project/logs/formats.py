"""The format of log lines, chosen by WEIR_LOG_FORMAT: JSON for machines; text, with or without colours, for people."""

import os
import re
from functools import partial
from typing import Any, Literal

import structlog

from project.environment import redacting
from weir.logs import masking

TOLD = "UP_HAS_TOLD"  # a variable: the events, separated by commas, that `manage.py up` reports itself
REQUESTS = "django_structlog.middlewares.request"
HEALTH_CHECKS = ("GET /healthz", "GET /livez", "GET /readyz", "GET /metrics")

# In a path, a token that logs in any client that requests the path (project.logins.urls).
_TOKEN = re.compile(r"(/sign-in/with/)[^/\s]+")

_CLIENTS_FAULTS = range(400, 500)  # the statuses with which Django answers wrong requests

Format = Literal["json", "text", "colour"]


def chosen(wanted: str, *, debug: bool) -> Format:
    """Return the format that WEIR_LOG_FORMAT names; if it is empty, text under DJANGO_DEBUG, else JSON."""
    match wanted:
        case "json" | "text" | "colour":
            return wanted
        case _:
            return "text" if debug else "json"


def configure(form: Format, level: str) -> dict[str, Any]:
    """Configure structlog, and return LOGGING, with which all other loggers write lines of the same format."""
    before = _before(form)
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *before,
            *([] if form == "json" else [_leave_out]),
            structlog.stdlib.PositionalArgumentsFormatter(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    formatter = {
        "()": structlog.stdlib.ProcessorFormatter,
        "processors": [
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.format_exc_info,
            partial(masking.mask, passwords=redacting.of_environment()),
            _renderer(form),
        ],
        "foreign_pre_chain": before,
    }
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"structured": formatter},
        "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "structured"}},
        "root": {"handlers": ["console"], "level": level},
        "loggers": {
            # One line a task would be thousands a minute: failures and warnings are enough.
            "celery.worker.strategy": {"level": "WARNING"},
            "celery.app.trace": {"level": "WARNING"},
            "celery.beat": {"level": "WARNING"},
            "django_celery_beat.schedulers": {"level": "WARNING"},
            # These entries remove the loggers' own handlers, which would not mask passwords. Weir logs each request
            # itself, so uvicorn's access log would repeat it.
            **{name: {"level": level, "propagate": True} for name in ("uvicorn", "uvicorn.error")},
            "uvicorn.access": {"level": "WARNING", "propagate": True},
        },
    }


def _before(form: Format) -> list[Any]:
    return [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        _clients_faults,
        _without_tokens,
        *([structlog.processors.TimeStamper(fmt="iso", utc=True)] if form == "json" else _times_of_text()),
    ]


def _clients_faults(_logger: object, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Turn Django's log entry about a wrong request into a warning of one line: any client can send such a request.

    For example, Django logs an error with a traceback for a host that is not allowed.
    """
    record = event.get("_record")
    is_djangos = record is not None and record.name.startswith("django.")
    if is_djangos and getattr(record, "status_code", 0) in _CLIENTS_FAULTS:
        event.pop("exc_info", None)
        event["level"] = "warning"
    return event


def _without_tokens(_logger: object, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Mask tokens in paths: a token is valid until it is used."""
    for name in ("event", "request"):
        if isinstance(text := event.get(name), str):
            event[name] = _TOKEN.sub(r"\1***", text)
    return event


def _times_of_text() -> list[Any]:
    """Return the processor that adds the time of day; none under honcho, which writes the time itself."""
    if "HONCHO_PROCESS_NAME" in os.environ:
        return []
    return [structlog.processors.TimeStamper(fmt="%H:%M:%S", utc=False)]


def _leave_out(_logger: object, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Drop lines that people need not read: a request's first line of two, good health checks, and events in TOLD."""
    is_told = event["event"] in os.environ.get(TOLD, "").split(",")
    is_routine = event["level"] == "info" and event["logger"] == REQUESTS
    if is_told or (is_routine and (event["event"] == "request_started" or event.get("request") in HEALTH_CHECKS)):
        raise structlog.DropEvent
    return event


def _renderer(form: Format) -> structlog.typing.Processor:
    if form == "json":
        return structlog.processors.JSONRenderer()
    # Plain tracebacks: if rich is installed, structlog's own show local variables, including passwords.
    plain = structlog.dev.plain_traceback
    return structlog.dev.ConsoleRenderer(
        colors=form == "colour", pad_event_to=0, pad_level=False, exception_formatter=plain
    )
