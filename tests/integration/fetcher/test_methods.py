"""Requests with other methods than GET, as sites get them, and what becomes of them."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from pytest_django import Settings

from tests.integration.fetching import answering, fetched
from weir.ratelimit import site_settings
from weir.workers.fetches.enqueue import request_fetch
from weir.workers.fetches.fetcher.fetcher import Fetcher
from weir.workers.fetches.methods import METHODS
from weir.workers.fetches.models import Fetch, FetchState

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("messages")]


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What the site answers to one request; None closes the connection without an answer."""

    status: int = 200
    location: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b"page"


@dataclass(frozen=True, kw_only=True)
class Got:
    """A request, as the site got it."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class Site:
    """A site that records requests, and answers them in turn, the last reply again and again."""

    def __init__(self, address: str) -> None:
        self.got: list[Got] = []
        self.replies: list[Reply | None] = [Reply()]
        site = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _do(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
                headers = {name.lower(): value for name, value in self.headers.items()}
                site.got.append(Got(method=self.command, path=self.path, headers=headers, body=body))
                reply = site.replies.pop(0) if len(site.replies) > 1 else site.replies[0]
                if reply is None:
                    self.close_connection = True
                    return
                self.send_response(reply.status)
                for name, value in {"Content-Length": str(len(reply.body)), **reply.headers}.items():
                    self.send_header(name, value)
                if reply.location:
                    self.send_header("Location", reply.location)
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(reply.body)

            def log_message(self, *_arguments: object) -> None:
                """Log nothing."""

        for method in METHODS:
            setattr(Handler, f"do_{method}", Handler._do)
        self.server = ThreadingHTTPServer((address, 0), Handler)
        self.name = f"{address}:{self.server.server_port}"

    def url(self, path: str = "/") -> str:
        return f"http://{self.name}{path}"


Serving = Callable[..., Site]


@pytest.fixture
def serving(settings: Settings) -> Iterator[Serving]:
    """Return a function that starts a site, at an address of its own, with these replies."""
    settings.WEIR_OBEY_ROBOTS = False
    with ExitStack() as leaving:
        numbers = iter(range(1, 250))

        def started(*replies: Reply | None) -> Site:
            made = Site(f"127.1.253.{next(numbers)}")
            made.replies = list(replies) or made.replies
            site_settings.set_rate(made.name, "100/s")
            leaving.enter_context(answering(made.server))
            return made

        yield started


def asked(site: Site, fetcher: Fetcher, path: str = "/", **given: Any) -> Fetch:
    return fetched(request_fetch(site.url(path), repeatable=True, **given), fetcher)


def test_a_post_has_its_body(serving: Serving, fetcher: Fetcher) -> None:
    site = serving()
    fetch = asked(site, fetcher, method="POST", json={"a": 1})
    [got] = site.got
    assert (got.method, got.body, got.headers["content-type"]) == ("POST", b'{"a":1}', "application/json")
    assert got.headers["idempotency-key"] == str(fetch.idempotency_key)
    assert (fetch.state, fetch.content, fetch.request_body) == (FetchState.DONE, b"page", b'{"a":1}')
