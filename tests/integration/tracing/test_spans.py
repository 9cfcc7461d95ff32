"""Spans: exported in the background, linked to what asked, silent about secrets, and off unless asked for."""

import logging
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest
from django.http import HttpRequest, HttpResponse
from django.test import AsyncClient, Client
from django.urls import path
from pytest_django import Settings

from demo.fakes.mail_server import MailServer
from demo.fakes.sites import Sites
from project.checkout import CHECKOUT
from tests import collector as collectors
from tests.collector import Collector, attributes, links_to
from tests.integration.conftest import StartPython
from tests.integration.fetching import fetched
from tests.integration.mail import shipments
from tests.set_up import needs_async_views
from tests.waiting import in_time, wait_for
from weir.notifications import tasks as unread_tasks
from weir.workers.fetches import tasks
from weir.workers.fetches.enqueue import request_fetch
from weir.workers.fetches.fetcher.fetcher import Fetcher
from weir.workers.fetches.models import Fetch, FetchState
from weir.workers.mail.models import Email
from weir.workers.mail.sending import runner
from weir.workers.orders import shipping
from weir.workers.tracing import spans

pytestmark = [pytest.mark.django_db(transaction=True, databases="__all__"), pytest.mark.usefixtures("messages")]

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
CALLER = f"00-{TRACE}-00f067aa0ba902b7-01"


def ask(request: HttpRequest, secret: str) -> HttpResponse:
    """Ask for a page, and ship an order."""
    assert secret
    request_fetch(request.GET["url"])
    shipping.ship(int(request.GET["order"]))
    return HttpResponse("asked")


async def look(_request: HttpRequest) -> HttpResponse:
    """Answer without a thread."""
    return HttpResponse(spans.traceparent())


urlpatterns = [path("ask/<str:secret>", ask), path("look", look)]


@pytest.fixture(autouse=True)
def _views(settings: Settings) -> Iterator[None]:
    settings.ROOT_URLCONF = __name__
    spans.stop()
    yield
    spans.stop()


@pytest.fixture
def collector(settings: Settings) -> Iterator[Collector]:
    """Return a collector, which the settings name."""
    with collectors.running() as running:
        settings.OTEL_EXPORTER_OTLP_ENDPOINT = running.url
        yield running
        spans.stop()


@pytest.fixture
def site() -> Iterator[tuple[str, list[bytes]]]:
    """Return the URL of a site, and the requests that have come to it, with all headers."""
    seen: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(f"{self.requestline}\n{self.headers}".encode())
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_arguments: object) -> None: ...

    with ThreadingHTTPServer(("127.1.0.77", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.1.0.77:{server.server_port}", seen
        server.shutdown()


def one(collector: Collector, name: str) -> Any:
    """Return the only span of this name."""
    [found] = collector.named(name)
    return found


def test_a_request_leads_to_its_fetch_and_its_email(
    collector: Collector, fetcher: Fetcher, site: tuple[str, list[bytes]], mail: MailServer
) -> None:
    """By parents as far as one process does it, and by links from there on; the caller's span is the first parent."""
    url, seen = site
    tasks.dispatch()
    query: dict[str, str | int] = {"url": f"{url}/page?token=s3cret", "order": shipments.place().pk}
    Client().get("/ask/s3cret-path", query, headers={"traceparent": CALLER, "X-Request-ID": "r-1"})
    assert fetched(Fetch.objects.get(), fetcher).state == FetchState.DONE
    assert runner.send_due().sent == 1
    spans.stop()

    request, enqueued, email = one(collector, "GET /ask/<str:secret>"), one(collector, "enqueue fetches"), "e-mail"
    assert (request.trace_id.hex(), request.parent_span_id.hex()) == (TRACE, CALLER.split("-")[2])
    assert attributes(request)["http.response.status_code"] == 200
    assert attributes(request)["correlation_id"] == "r-1"
    for child in (enqueued, one(collector, f"enqueue {email}")):
        assert (child.trace_id, child.parent_span_id) == (request.trace_id, request.span_id)
    attempt = collector.named("fetch")[-1]
    assert links_to(attempt, enqueued)
    assert attempt.end_time_unix_nano > attempt.start_time_unix_nano
    told = attributes(attempt)
    assert (told["server.address"], told["http.response.status_code"], told["weir.state"]) == (
        "127.1.0.77",
        200,
        "done",
    )
    assert told["correlation_id"] == "r-1"
    assert links_to(one(collector, f"send {email}"), one(collector, f"enqueue {email}"))
    assert collector.named("dispatch")
    assert attributes(collector.named("claim")[-1])["weir.fetches"] == 1
    # To collectors goes no secret and no address; to nobody else goes a traceparent.
    exported = b"".join(collector.received)
    assert b"s3cret" not in exported
    assert Email.objects.get().recipient.encode() not in exported
    assert len(seen) == 1
    assert not any(
        word in seen[0].lower() for word in (b"traceparent", b"tracestate", b"baggage", b"r-1", TRACE.encode())
    )
    assert TRACE not in mail.record.read_text()
    assert TRACE.encode() not in bytes(Email.objects.get().rendering.content)


@needs_async_views
def test_an_async_view_is_in_a_span(collector: Collector) -> None:
    """What it calls is, too; a header that is no traceparent counts as none."""
    from asgiref.sync import async_to_sync  # noqa: PLC0415  this test alone is asynchronous

    answer = async_to_sync(AsyncClient().get)("/look", headers={"traceparent": "00-x\n-<b>"})
    spans.stop()
    request = one(collector, "GET /look")
    assert answer.content.decode().split("-")[1:3] == [request.trace_id.hex(), request.span_id.hex()]
    assert not request.parent_span_id


def test_an_error_is_named_by_its_type(collector: Collector) -> None:
    """Its text may hold what is secret."""
    with pytest.raises(ValueError, match="s3cret"), spans.span("work"):
        raise ValueError("s3cret")
    spans.stop()
    assert attributes(one(collector, "work")) == {"error.type": "ValueError"}
    assert b"s3cret" not in b"".join(collector.received)


@pytest.mark.usefixtures("valkey")
def test_passes_of_unread_numbers_are_spans(collector: Collector) -> None:
    """A flush, and a pass of reconciliation."""
    unread_tasks.flush_unread()
    unread_tasks.reconcile_unread()
    spans.stop()
    assert {span.name for span in collector.spans} == {"flush unread", "reconcile unread"}


def test_a_collector_that_is_away_holds_up_nothing(settings: Settings, fetcher: Fetcher, running_sites: Sites) -> None:
    """Neither fetches, nor a process that ends."""
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        settings.OTEL_EXPORTER_OTLP_ENDPOINT = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        for number in range(5):
            assert fetched(request_fetch(running_sites.url(0, f"/ok/{number}")), fetcher).state == FetchState.DONE
        for _ in range(5_000):  # more than are kept for it
            spans.record("fetch", {}, began_at=1.0, ended_at=2.0, link="", failed=False)
        began_at = time.monotonic()
        spans.stop()
        in_time(time.monotonic() - began_at < 3, "the end of the exporter")
    # Its thread tries for half a minute more, and would log in other tests.
    logging.getLogger("opentelemetry.exporter.otlp.proto.http.trace_exporter").disabled = True


def test_without_a_collector_nothing_is_imported_or_stored() -> None:
    """The extra need not be there."""
    fetch = request_fetch("http://example.com/")
    assert (fetch.traceparent, spans.is_on()) == ("", False)
    code = (
        "import sys; sys.modules['opentelemetry'] = None\n"
        "import django; django.setup(); import project.celery, weir.workers.fetches.fetcher.fetcher\n"
        "from weir.workers.tracing import spans\n"
        "with spans.span('work'): print([spans.traceparent(), 'weir.workers.tracing.recorder' in sys.modules])"
    )
    told = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60, cwd=CHECKOUT
    )
    assert told.stdout == "['', False]\n"


def test_without_the_extra_a_line_says_so(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once a process; work goes on."""
    settings.OTEL_EXPORTER_OTLP_ENDPOINT = "http://127.0.0.1:4318"
    monkeypatch.setitem(sys.modules, "weir.workers.tracing.recorder", None)
    assert request_fetch("http://example.com/").traceparent == ""
    assert not spans.is_on()


FORKS = """
import os
from weir.workers.tracing import spans
with spans.span("parent"): pass
if not os.fork():
    with spans.span("child"): pass
    spans.stop()
    os._exit(0)
os.wait()
print("done", flush=True)
"""


def test_a_forked_child_exports_by_itself(collector: Collector, start_python: StartPython) -> None:
    """As the children of a Celery pool do; the parent exports at its end."""
    process = start_python(FORKS, environment={"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url})
    process.communicate(timeout=60)
    wait_for(lambda: len(collector.spans) == 2, 10, "both spans")
    assert {span.name for span in collector.spans} == {"parent", "child"}
    assert len(collector.processes) == 2
