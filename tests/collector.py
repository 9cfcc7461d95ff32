"""A collector of spans: a server that takes what OpenTelemetry exports by OTLP over HTTP, and keeps it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

Exported = Any  # the protocol's Span, whose class is made when it is imported


@dataclass(kw_only=True)
class Collector:
    """What has come so far, of all processes."""

    url: str
    spans: list[Exported] = field(default_factory=list)
    processes: set[int] = field(default_factory=set)
    received: list[bytes] = field(default_factory=list)

    def named(self, name: str) -> list[Exported]:
        """Return the spans of this name."""
        return [span for span in self.spans if span.name == name]

    def take(self, body: bytes) -> None:
        """Keep the spans of one request."""
        self.received.append(body)
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            known = {each.key: each.value for each in resource.resource.attributes}
            self.processes.add(known["process.pid"].int_value)
            self.spans += [span for scope in resource.scope_spans for span in scope.spans]


def attributes(span: Exported) -> dict[str, str | int]:
    """Return a span's attributes."""
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in span.attributes}


def links_to(span: Exported, other: Exported) -> bool:
    """Return whether the one span has a link to the other, and no parent."""
    found = [(link.trace_id, link.span_id) for link in span.links]
    return found == [(other.trace_id, other.span_id)] and not span.parent_span_id and span.trace_id != other.trace_id


@contextmanager
def running() -> Iterator[Collector]:
    """Provide a collector that listens."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.path == "/v1/traces"
            made.take(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_arguments: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        made = Collector(url=f"http://127.0.0.1:{server.server_port}")
        serving = Thread(target=server.serve_forever, daemon=True)
        serving.start()
        try:
            yield made
        finally:
            server.shutdown()
            serving.join()
