"""Requests with other methods than GET, as sites get them, and what becomes of them."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from django.db import connection
from pytest_django import Settings

from tests.answering import answering
from tests.integration.fetching import fetched
from weir.ratelimit import site_settings
from weir.workers.fetches.enqueue import request_fetch, request_fetches
from weir.workers.fetches.fetcher.fetcher import Fetcher
from weir.workers.fetches.methods import METHODS, SAFE
from weir.workers.fetches.models import Fetch, FetchState, RequestBody
from weir.workers.fetches.retrying import retry_failed

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
    client: tuple[str, int]


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
                client = self.client_address
                site.got.append(Got(method=self.command, path=self.path, headers=headers, body=body, client=client))
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


URL = "https://a.example/"


BODIES: list[tuple[dict[str, Any], bytes, str | None]] = [
    ({}, b"", None),
    ({"body": b""}, b"", "application/octet-stream"),
    ({"body": b"\0\xff"}, b"\0\xff", "application/octet-stream"),
    ({"body": b"<a/>", "headers": {"content-type": "text/xml"}}, b"<a/>", "text/xml"),
    ({"json": {}}, b"{}", "application/json"),
    ({"json": False}, b"false", "application/json"),
    ({"json": 0}, b"0", "application/json"),
    ({"json": ["\u00e4", None]}, '["\u00e4",null]'.encode(), "application/json"),
    ({"form": {"a": "1 2", "b": "&"}}, b"a=1+2&b=%26", "application/x-www-form-urlencoded"),
    ({"form": [("a", "1"), ("a", "\u00e4")]}, b"a=1&a=%C3%A4", "application/x-www-form-urlencoded"),
]


def test_a_request_has_its_method_and_its_body(serving: Serving, fetcher: Fetcher) -> None:
    """Its length is said, also of none, but for a DELETE; and it has an Idempotency-Key."""
    site = serving()
    asked_for = [(method, *each) for method in METHODS if method not in SAFE for each in BODIES]
    fetches = [
        request_fetch(site.url(f"/{place}"), method=method, repeatable=True, **given)
        for place, (method, given, _, _) in enumerate(asked_for)
    ]
    for place, (method, _, body, content_type) in enumerate(asked_for):
        fetch = fetched(fetches[place], fetcher)
        [got] = [got for got in site.got if got.path == f"/{place}"]
        length = None if method == "DELETE" and not body else str(len(body))
        told = (got.headers.get("content-type"), got.headers.get("content-length"), got.headers["idempotency-key"])
        assert (got.method, got.body, told) == (method, body, (content_type, length, str(fetch.idempotency_key)))
        assert (fetch.state, fetch.content, fetch.request_body or b"") == (FetchState.DONE, b"page", body)


def test_a_request_that_gets_no_answer_is_sent_again_as_it_was(serving: Serving, fetcher: Fetcher) -> None:
    """Over attempts, over refusals, and when an operator retries it: with the same key and the same body."""
    site = serving(Reply(), None, Reply(status=500), Reply(status=500), Reply(status=201))
    asked(site, fetcher)  # so that a connection is kept
    failed = asked(site, fetcher, method="POST", body=b"order", max_attempts=2)
    assert (failed.state, failed.status_code) == (FetchState.FAILED, 500)
    assert retry_failed(Fetch.objects.all()).queued == 1
    done = fetched(failed, fetcher)
    assert (done.state, done.status_code) == (FetchState.DONE, 201)
    assert {(got.method, got.body, got.headers["idempotency-key"]) for got in site.got[1:]} == {
        ("POST", b"order", str(done.idempotency_key))
    }
    assert len(site.got) == 5


def test_a_key_of_ones_own_takes_the_place_of_the_fetchs(serving: Serving, fetcher: Fetcher) -> None:
    """In quotes, too, where a site reads it as a structured field. That of a site would be the same for all."""
    site = serving()
    site_settings.set_rate(site.name, headers={"Idempotency-Key": "site"})
    own = asked(site, fetcher, method="POST", headers={"idempotency-key": '"mine"'})
    given = asked(site, fetcher, method="POST")
    assert [got.headers["idempotency-key"] for got in site.got] == ['"mine"', str(given.idempotency_key)]
    assert own.idempotency_key is None


@pytest.mark.parametrize(
    ("before", "statuses", "ends"),
    [((), (409,), 409), ((None,), (409, 409, 201), 201), ((Reply(status=500),), (409, 409), 409)],
    ids=["the first time", "while it goes on", "to the last"],
)
def test_a_conflict_with_a_request_that_may_go_on_is_waited_for(
    serving: Serving, fetcher: Fetcher, before: tuple[Reply | None], statuses: tuple[int, ...], ends: int
) -> None:
    """By the draft, 409 says that the first request with the key still goes on. Otherwise it is the answer."""
    site = serving(*before, *(Reply(status=status) for status in statuses))
    most = len(before) + len(statuses)
    fetch = asked(site, fetcher, method="POST", body=b"order", max_attempts=most)
    assert (fetch.state, fetch.status_code, len(site.got)) == (FetchState.DONE, ends, most)


def test_a_conflict_is_waited_for_after_a_closing_that_is_spared(serving: Serving, fetcher: Fetcher) -> None:
    """The site closed a kept connection as the request came. No attempt was counted, but the site may have read it."""
    site = serving(Reply(), None, Reply(status=409), Reply(status=201))
    asked(site, fetcher)
    fetch = asked(site, fetcher, method="POST", body=b"order", max_attempts=2)
    assert (fetch.status_code, fetch.attempts, len(site.got)) == (201, 2, 4)


def test_the_answer_to_a_head_has_no_body(serving: Serving, fetcher: Fetcher) -> None:
    """Whatever its headers say of one; they are stored, and the connection is kept."""
    said: tuple[dict[str, str], ...] = (
        {},
        {"Content-Length": "5000000"},
        {"Content-Encoding": "gzip"},
        {"Connection": "close"},
    )
    replies = [*(Reply(headers=headers) for headers in said), Reply(status=404)]
    site = serving(*replies, Reply())
    for reply in replies:
        fetch = asked(site, fetcher, method="HEAD")
        length = reply.headers.get("Content-Length", "4")
        told = fetch.state, fetch.status_code, fetch.content, dict(fetch.headers)["Content-Length"]
        assert told == (FetchState.DONE, reply.status, None, length)
    assert asked(site, fetcher).content == b"page"
    assert [got.method for got in site.got] == [*["HEAD"] * 5, "GET"]
    clients = [got.client for got in site.got]
    assert [clients.index(client) for client in clients] == [0, 0, 0, 0, 4, 4]
    assert "idempotency-key" not in site.got[0].headers


def test_only_a_get_is_a_result_that_another_is_asked_against(serving: Serving, fetcher: Fetcher) -> None:
    """The answer to a HEAD has no body that could still hold, that to a POST is no page."""
    site = serving(Reply(headers={"ETag": '"v1"'}))
    asked(site, fetcher, method="HEAD")
    asked(site, fetcher, method="POST")
    asked(site, fetcher, revalidate=True)
    assert "if-none-match" not in site.got[-1].headers
    asked(site, fetcher, method="HEAD", revalidate=True)
    assert site.got[-1].headers["if-none-match"] == '"v1"'


def test_a_part_of_a_body_is_asked_for(serving: Serving, fetcher: Fetcher) -> None:
    """Without an encoding, of which a part could not be read; 416 is an answer; a whole body is one, too."""
    part = Reply(status=206, headers={"Content-Range": "bytes 0-1/4", "Content-Encoding": "gzip"}, body=b"pa")
    site = serving(part, Reply(status=206), Reply(status=416), Reply(), Reply())
    asked_for = {"Range": "bytes=0-1", "If-Range": '"v1"'}
    found = asked(site, fetcher, headers=asked_for)
    assert (found.state, found.status_code, found.content, found.incomplete) == (FetchState.DONE, 206, b"pa", "")
    assert {name: site.got[0].headers[name] for name in ("range", "if-range", "accept-encoding")} == {
        "range": "bytes=0-1",
        "if-range": '"v1"',
        "accept-encoding": "identity",
    }
    unasked = asked(site, fetcher)
    assert (unasked.state, unasked.incomplete) == (
        FetchState.DONE,
        "a part of the body, although the whole was asked for",
    )
    assert [asked(site, fetcher, headers=asked_for).status_code for _ in range(2)] == [416, 200]


# What becomes of a method, by the status of a redirect (RFC 9110, 15.4; https://fetch.spec.whatwg.org/).
BECOMES: dict[int, dict[str, str]] = {
    301: {"POST": "GET"},
    302: {"POST": "GET"},
    303: {"POST": "GET", "PUT": "GET", "PATCH": "GET", "DELETE": "GET"},
    307: {},
    308: {},
}


@pytest.mark.parametrize("status", BECOMES)
def test_a_redirect_keeps_the_method_or_makes_it_a_get(serving: Serving, fetcher: Fetcher, status: int) -> None:
    """With it goes the body, what describes it, and its key. Where it led is stored."""
    site = serving()
    for method in METHODS:
        site.got = []
        site.replies = [Reply(status=status, location="/then"), Reply(status=302, location="/to"), Reply()]
        given: dict[str, Any] = {} if method in SAFE else {"json": [1], "headers": {"Content-Language": "de", "X": "1"}}
        fetch = asked(site, fetcher, method=method, **given)
        first, _, then = site.got
        becomes = BECOMES[302].get(now := BECOMES[status].get(method, method), now)
        assert [got.method for got in site.got] == [method, now, becomes]
        keeps = then.method == method
        assert then.body == (first.body if keeps else b"")
        for name in ("content-type", "content-language", "content-length", "idempotency-key"):
            assert then.headers.get(name) == (first.headers.get(name) if keeps else None), (method, name)
        assert then.headers.get("x") == first.headers.get("x")
        assert (fetch.state, fetch.method, fetch.redirect_chain) == (
            FetchState.DONE,
            method,
            [[status, site.url("/then")], [302, site.url("/to")]],
        )


def test_the_answer_to_a_post_may_lead_to_its_own_url(serving: Serving, fetcher: Fetcher) -> None:
    """As many forms do: there, a GET is another request. A POST that leads to itself goes round in circles."""
    site = serving(Reply(status=303, location="/"), Reply())
    assert asked(site, fetcher, method="POST").state == FetchState.DONE
    assert [got.method for got in site.got] == ["POST", "GET"]
    site.replies = [Reply(status=307, location="/")]
    again = asked(site, fetcher, method="POST")
    assert (again.state, again.error[:20]) == (FetchState.FAILED, "redirected to itself")


@pytest.mark.parametrize(("status", "method"), [(307, "POST"), (308, "PUT"), (301, "DELETE"), (302, "PATCH")])
def test_what_changes_something_is_not_sent_to_another_origin(
    serving: Serving, fetcher: Fetcher, status: int, method: str
) -> None:
    site, other = serving(), serving()
    site.replies = [Reply(status=status, location=other.url("/x"))]
    fetch = asked(site, fetcher, method=method, body=b"secret")
    assert (fetch.state, other.got, fetch.redirect_chain) == (FetchState.FAILED, [], None)
    assert (
        fetch.error == f"redirected to another origin, to which no {method} is sent: ask for {other.url('/x')} itself"
    )


def test_a_get_that_was_a_post_may_leave_its_origin(serving: Serving, fetcher: Fetcher) -> None:
    site, other = serving(), serving()
    site.replies = [Reply(status=303, location=other.url("/x"))]
    assert asked(site, fetcher, method="POST", body=b"secret").state == FetchState.DONE
    assert [(got.method, got.body) for got in other.got] == [("GET", b"")]


def test_a_fetch_that_became_a_get_is_retried_as_it_was_asked_for(serving: Serving, fetcher: Fetcher) -> None:
    site = serving(Reply(status=303, location="/to"), Reply(status=500), Reply())
    failed = asked(site, fetcher, method="POST", body=b"order", max_attempts=1)
    assert (failed.state, failed.redirect_chain) == (FetchState.FAILED, [[303, site.url("/to")]])
    retry_failed(Fetch.objects.all())
    assert not Fetch.objects.get().has_become_get
    Fetch.objects.update(has_become_get=True, redirect_chain=[[303, "/"]])  # as the version before leaves them
    done = fetched(failed, fetcher)
    assert [(got.method, got.body) for got in site.got] == [("POST", b"order"), ("GET", b""), ("POST", b"order")]
    assert (done.state, done.redirects) == (FetchState.DONE, 0)


@pytest.mark.parametrize(("most", "state"), [(0, "done"), (1, "failed"), (2, "done")])
def test_as_many_redirects_are_followed_as_is_said(serving: Serving, fetcher: Fetcher, most: int, state: str) -> None:
    """With none, the redirect is the result."""
    site = serving(Reply(status=302, location="/1"), Reply(status=302, location="/2"), Reply())
    fetch = asked(site, fetcher, max_redirects=most)
    chain = [[302, site.url("/1")], [302, site.url("/2")]][:most]
    assert (fetch.state, fetch.redirect_chain or [], fetch.redirects) == (state, chain, most)
    if not most:
        assert (fetch.status_code, fetch.content, dict(fetch.headers)["Location"]) == (302, b"page", "/1")
    if state == "failed":
        assert fetch.error == "more than 1 redirects, the last to /2"


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"method": "TRACE"}, "method must be one of GET, HEAD, POST, PUT, PATCH, DELETE, not 'TRACE'"),
    ({"method": b"GET"}, "method must be one of"),
    ({"method": "POST"}, "A POST may be sent more than once, with the same Idempotency-Key: pass repeatable=True"),
    ({"method": "DELETE"}, "A DELETE may be sent more than once"),
    ({"body": b"x"}, "A GET has no body"),
    ({"method": "HEAD", "json": 0}, "A HEAD has no body"),
    ({"method": "POST", "body": b"x", "json": 1, "repeatable": True}, "only one of them"),
    ({"method": "POST", "body": b"x" * 11, "repeatable": True}, "The body has 11 bytes, more than the 10"),
    ({"method": "POST", "json": float("nan"), "repeatable": True}, "json cannot be written as JSON: Out of range"),
    ({"method": "POST", "json": object(), "repeatable": True}, "json cannot be written as JSON: Object of type object"),
    ({"method": "POST", "json": "\ud800", "repeatable": True}, "json cannot be written as JSON"),
    ({"method": "POST", "form": {"a": "\ud800"}, "repeatable": True}, "UTF-8"),
    ({"method": "POST", "repeatable": True, "revalidate": True}, "revalidate asks whether a page is still the same"),
    ({"headers": {"Range": "bytes=0-1"}, "revalidate": True}, "revalidate asks for whole bodies"),
    ({"headers": {"Range": "bytes=0-1"}, "method": "HEAD"}, "only for a GET, not for a HEAD"),
    ({"headers": {"If-Range": "x"}}, "If-Range only beside Range"),
    ({"headers": {"Content-Length": "1"}}, "headers must not have Content-Length"),
    ({"max_redirects": 21}, "max_redirects must be between 0 and 20, not 21"),
    ({"max_redirects": -1}, "max_redirects must be between 0 and 20, not -1"),
    ({"max_redirects": True}, "max_redirects must be between 0 and 20, not True"),
]


def test_what_cannot_be_sent_is_refused_with_what_to_do(settings: Settings) -> None:
    """Nothing is stored then."""
    settings.WEIR_FETCH_MAX_REQUEST_BODY = 10
    for given, said in REFUSED:
        with pytest.raises(ValueError, match=r"\.$") as refused:
            request_fetch(URL, **given)
        assert said in str(refused.value)
    texts: list[dict[str, Any]] = [{"body": "text"}, {"form": {"a": 1}}, {"form": [("a",)]}, {"form": ["ab"]}]
    for given in texts:
        with pytest.raises(TypeError, match=r"body must be bytes|form must map"):
            request_fetch(URL, method="POST", repeatable=True, **given)
    with pytest.raises(ValueError, match="an Idempotency-Key only for one URL"):
        request_fetches([URL, URL], method="POST", repeatable=True, headers={"Idempotency-Key": "1"})
    assert not Fetch.objects.exists()


def test_fetches_with_other_requests_are_others() -> None:
    """With `dedupe`. Each that is new has a key and a body of its own."""
    given: list[dict[str, Any]] = [
        {},
        {"method": "HEAD"},
        {"method": "post"},
        {"method": "POST"},
        {"method": "PUT"},
        {"method": "POST", "body": b"1"},
        {"method": "POST", "body": b"2"},
        {"method": "POST", "body": b"1"},
        {"max_redirects": 0},
    ]
    fetches = [request_fetch(URL, repeatable=True, dedupe=True, **each) for each in given]
    assert [fetches.index(fetch) for fetch in fetches] == [0, 1, 2, 2, 4, 5, 6, 5, 8]
    many = request_fetches([URL, "no URL"], method="POST", body=b"1", repeatable=True)
    assert len({fetch.idempotency_key for fetch in many}) == 2
    assert [fetch.request_body for fetch in many] == [b"1", b"1"]


def test_a_body_goes_with_its_fetch() -> None:
    """Also if only the fetch is deleted, as a version does that knows no bodies."""
    kept, gone = (request_fetch(URL, method="POST", body=b"1", repeatable=True) for _ in range(2))
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM weir_fetches_fetch WHERE id = %s", [gone.pk])
    assert [body.pk for body in RequestBody.objects.all()] == [kept.pk]
