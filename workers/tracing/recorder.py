"""The recorder of spans: OpenTelemetry's SDK, one recorder for each process.

It exports spans in a thread of its own, and drops spans that it cannot send. The standard variables of OpenTelemetry
apply: OTEL_EXPORTER_OTLP_HEADERS, OTEL_SERVICE_NAME, OTEL_TRACES_SAMPLER, ...
"""

import atexit
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import Event, Thread

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Link, SpanContext, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from weir.conf import settings

STOP_S = 1.0  # how long the end of a process waits for a collector
NS = 1_000_000_000
Attributes = Mapping[str, str | int | float]
_propagator = TraceContextTextMapPropagator()


class Recorder:
    """The recorder of this process; made at its first span, after any fork. `at_exit` is called when it ends."""

    def __init__(self, at_exit: Callable[[], None]) -> None:
        service = os.environ.get("OTEL_SERVICE_NAME") or "weir"
        named = Resource.create({"service.name": service, "process.pid": os.getpid()})
        self._provider = TracerProvider(resource=named, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=_endpoint())))
        self._tracer = self._provider.get_tracer("weir")
        self._is_over = Event()
        # The thread is started now, and waits, because no thread can be started when the interpreter ends.
        self._stopper = Thread(target=self._shut_down, name="otel-stopper", daemon=True)
        self._stopper.start()
        atexit.register(at_exit)

    @contextmanager
    def span(self, name: str, attributes: Attributes, parent: str, link: str) -> Iterator[trace.Span]:
        """Record the block. Of an exception, record only the type: its text may name people, or have secrets."""
        with self._tracer.start_as_current_span(
            name,
            context=_propagator.extract({"traceparent": parent}) if parent else None,
            attributes=attributes,
            links=_links(link),
            record_exception=False,
            set_status_on_exception=False,
        ) as opened:
            try:
                yield opened
            except BaseException as error:
                opened.set_attribute("error.type", type(error).__qualname__)
                opened.set_status(Status(StatusCode.ERROR))
                raise

    def record(
        self, name: str, attributes: Attributes, began_at: float, ended_at: float, link: str, *, failed: bool
    ) -> None:
        """Record a span that has ended."""
        ended = self._tracer.start_span(
            name,
            context=Context(),
            attributes=attributes,
            links=_links(link),
            start_time=int(began_at * NS),
        )
        if failed:
            ended.set_status(Status(StatusCode.ERROR))
        ended.end(int(ended_at * NS))

    def traceparent(self) -> str:
        """Return the traceparent of the current span, if it is exported; else ""."""
        current = trace.get_current_span().get_span_context()
        if not (current.is_valid and current.trace_flags.sampled):
            return ""
        return f"00-{current.trace_id:032x}-{current.span_id:016x}-{current.trace_flags:02x}"

    def stop(self) -> None:
        """Export the spans that are left; return after STOP_S at the latest, even if no collector answers."""
        self._is_over.set()
        self._stopper.join(STOP_S)

    def _shut_down(self) -> None:
        self._is_over.wait()
        self._provider.shutdown()


def _endpoint() -> str:
    """Return the URL for spans: below the collector of the settings, unless a variable has the whole URL."""
    collector = settings.OTEL_EXPORTER_OTLP_ENDPOINT.rstrip("/")
    return os.environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") or f"{collector}/v1/traces"


def _links(traceparent: str) -> list[Link]:
    if not traceparent:
        return []
    context: SpanContext = trace.get_current_span(
        _propagator.extract({"traceparent": traceparent}, Context())
    ).get_span_context()
    return [Link(context)] if context.is_valid else []
