"""Spans, for a collector of OpenTelemetry: what Weir does, and when.

Spans are on if OTEL_EXPORTER_OTLP_ENDPOINT is set and the extra `otel` is installed. Otherwise no package of
OpenTelemetry is imported, and each function returns immediately.

A batch serves many requests. So the span of the work for one row is not a child of the span that asked for the row, but
has a link to it. For the link, the row keeps the `traceparent` of the asking span (W3C Trace Context). Weir sends it to
no other party.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Protocol

from weir.conf import settings
from weir.logs.loggers import get_logger

if TYPE_CHECKING:
    from weir.workers.tracing.recorder import Recorder

log = get_logger(__name__)

LONGEST = 55  # characters of a traceparent
Attributes = Mapping[str, str | int | float]


class Span(Protocol):
    """An open span, to which results may still be added."""

    def update_name(self, name: str) -> None:
        """Replace the name of the span."""

    def set_attributes(self, attributes: Attributes) -> None:
        """Add attributes, without query strings, passwords or addresses of people: a collector is not a vault."""


class _NoSpan:
    def update_name(self, name: str) -> None: ...

    def set_attributes(self, attributes: Attributes) -> None: ...


_NO_SPAN = _NoSpan()


@contextmanager
def span(name: str, attributes: Attributes | None = None, *, parent: str = "", link: str = "") -> Iterator[Span]:
    """Record the block, as a child of `parent` or of the span around it, and with a link to the span `link`.

    `parent` and `link` are traceparents; an unreadable or empty one is ignored.
    """
    if recorder := _recorder():
        with recorder.span(name, attributes or {}, parent, link) as opened:
            yield opened
    else:
        yield _NO_SPAN


def is_on() -> bool:
    """Return whether spans are recorded in this process."""
    return _recorder() is not None


def record(name: str, attributes: Attributes, *, began_at: float, ended_at: float, link: str, failed: bool) -> None:
    """Record work that has ended, between these times (seconds since 1970), as a trace of its own."""
    if recorder := _recorder():
        recorder.record(name, attributes, began_at, ended_at, link, failed=failed)


def traceparent() -> str:
    """Return the traceparent of the span around the caller; "" if there is none, or it is not exported."""
    recorder = _recorder()
    return recorder.traceparent() if recorder else ""


def lacks() -> str:
    """Return why spans cannot be recorded, the error of an import; "" if nothing is missing."""
    try:
        from weir.workers.tracing import recorder  # noqa: F401, PLC0415  imports packages of the extra
    except ImportError as error:
        return str(error)
    return ""


def stop(**_signal: object) -> None:
    """Export the spans that are left, for a second at most, at the end of this process."""
    if recorder := _of_process.pop(os.getpid(), None):
        recorder.stop()


_lock = Lock()
_of_process: dict[int, "Recorder | None"] = {}  # by process id: a forked child must not use its parent's


def _recorder() -> "Recorder | None":
    if not settings.OTEL_EXPORTER_OTLP_ENDPOINT:
        return None
    process = os.getpid()
    if process not in _of_process:
        with _lock:
            if process not in _of_process:
                _of_process[process] = _started()
    return _of_process[process]


def _started() -> "Recorder | None":
    try:
        from weir.workers.tracing.recorder import Recorder  # noqa: PLC0415  imports packages of the extra
    except ImportError as error:
        log.warning("tracing_is_off", error=str(error))
        return None
    return Recorder(stop)
