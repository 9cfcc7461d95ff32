"""What comes in is bounded, whatever the path and the client: over a real web process."""

import secrets
import socket
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from time import monotonic
from typing import Any

import psycopg
import pytest

from tests.acceptance.front import clients
from tests.acceptance.front.clients import answer, ask, connected, head, health, status
from tests.acceptance.front.conftest import NAME, PARSERS, StartWeb
from tests.waiting import comes_true, wait_for
from weir.api.front import MOST_BYTES

MIB = 2**20
SESSIONS = "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s"
BUNDLE = "/static/ninja/swagger-ui-bundle.js"  # 1.4 MB, for anybody
LIMITED = {"WEIR_WEB_REQUESTS": "3"}
PATHS = ("/sign-in/", "/admin/login/", "/api/v1/fetches", "/no-such-page")


def sessions(other: psycopg.Connection[Any]) -> int:
    """Return how many sessions of PostgreSQL the web process has."""
    [[number]] = other.execute(SESSIONS, [NAME]).fetchall()
    other.commit()
    return int(number)


@contextmanager
def slow_logins(other: psycopg.Connection[Any]) -> Iterator[None]:
    """Make each request with a token wait in PostgreSQL."""
    other.execute("LOCK TABLE weir_tokens_token")
    try:
        yield
    finally:
        other.rollback()


def some_token() -> str:
    """Return the header with a well-formed token that does not exist."""
    return f"Authorization: Bearer weir_{secrets.token_urlsafe(32)}"


def test_unfinished_bodies_take_little_memory_and_time(start_fresh: StartWeb) -> None:
    """80 bodies of two megabytes each, from clients that are not signed in; others are served beside them.

    With each parser, at the same time.
    """
    webs = {name: start_fresh(parser) for name, parser in PARSERS.items()}
    assert {status(ask(web.url, "/sign-in/")) for web in webs.values()} == {200}
    before = {name: clients.resident_mib(web.url) for name, web in webs.items()}
    with ExitStack() as stack:
        slow = {name: [stack.enter_context(connected(web.url)) for _ in range(80)] for name, web in webs.items()}
        all_of_them = [one for of_web in slow.values() for one in of_web]
        for number, one in enumerate(all_of_them):
            path = PATHS[number % len(PATHS)]
            one.sendall(head(f"POST {path}", some_token(), f"Content-Length: {MOST_BYTES}"))
            one.setblocking(False)
        _push(all_of_them, memoryview(b"x" * (MOST_BYTES - 1_000)))
        assert {status(ask(web.url, "/sign-in/")) for web in webs.values()} == {200}
        grown = {name: clients.resident_mib(web.url) - before[name] for name, web in webs.items()}
        assert max(grown.values()) < 96, f"{grown} MiB more"
        began = monotonic()
        codes = {name: Counter(status(_last(one)) for one in of_web) for name, of_web in slow.items()}
        assert monotonic() - began < 25
    assert all(set(found) <= {401, 408, 413, 503, 0} for found in codes.values()), codes


def _push(slow: list[socket.socket], body: memoryview) -> None:
    """Send the body by each connection that takes it."""
    left = dict.fromkeys(slow, 0)

    def is_pushed() -> bool:
        for one, at in list(left.items()):
            try:
                left[one] += one.send(body[at : at + 65_536])
            except BlockingIOError:
                continue
            except OSError:
                del left[one]
                continue
            if left[one] >= len(body):
                del left[one]
        return not left

    wait_for(is_pushed, 30, "all bodies", every_s=0.0)


def _last(one: socket.socket) -> bytes:
    one.settimeout(20)
    return answer(one)


@pytest.mark.parametrize("path", [*PATHS, "/livez"])
def test_large_bodies_are_refused_unread(start_web: StartWeb, path: str) -> None:
    web = start_web()
    told = head(f"POST {path}", "Content-Length: 3000000", some_token())
    with connected(web.url) as to:
        to.sendall(told)
        assert status(answer(to)) == (200 if path == "/livez" else 413)
    with connected(web.url) as to:
        to.sendall(head(f"POST {path}", "Transfer-Encoding: chunked", some_token()))
        chunk = b"100000\r\n" + b" " * MIB + b"\r\n"
        try:
            for _ in range(20):
                to.sendall(chunk)
        except OSError:
            pass  # it was closed
        assert status(answer(to)) in ((200, 0) if path == "/livez" else (413, 0))


def test_a_page_of_ones_own_may_take_larger_bodies(start_web: StartWeb) -> None:
    web = start_web(WEIR_WEB_MAX_BODY="4000000")
    with connected(web.url) as to:
        to.sendall(head("POST /no-such-page", "Content-Length: 3000000", "Connection: close") + b"x" * 3_000_000)
        assert status(answer(to)) == 404


def test_so_many_requests_at_once_as_connections(
    start_web: StartWeb, parser: str, other: psycopg.Connection[Any]
) -> None:
    """The others are told when to come again. Health pages are answered meanwhile."""
    web = start_web(parser, **LIMITED)
    assert health(web.url, "/readyz") == {"/readyz": 200}
    with ThreadPoolExecutor(60) as pool, slow_logins(other):
        asked = [pool.submit(ask, web.url, "/api/v1/status", some_token()) for _ in range(60)]
        wait_for(lambda: sum(one.done() for one in asked) == 57, 20, "all answers but three")
        refused = [one.result() for one in asked if one.done()]
        assert {status(one) for one in refused} == {503}
        assert all(b"retry-after: 1\r\n" in one.lower() for one in refused)
        assert all(b"/api/problems/unavailable" in one for one in refused)
        assert sessions(other) <= 3 + 2  # those of the health pages
        other.execute("LOCK TABLE weir_tokens_token")
        assert health(web.url, "/livez", "/healthz", "/readyz") == {
            "/livez": 200,
            "/healthz": 200,
            "/readyz": 200,
        }
        other.rollback()
    assert {status(one.result()) for one in asked} == {401, 503}
    assert status(ask(web.url, "/sign-in/")) == 200


def test_who_goes_away_leaves_no_connection_behind(start_web: StartWeb, other: psycopg.Connection[Any]) -> None:
    """A request whose client has gone has its turn until its thread has ended."""
    web = start_web(**LIMITED)
    assert status(ask(web.url, "/sign-in/")) == 200
    with psycopg.connect(other.info.dsn) as third, slow_logins(other):
        for _ in range(3):
            with ExitStack() as stack:
                for _ in range(40):
                    stack.enter_context(connected(web.url)).sendall(head("GET /api/v1/status", some_token()))
                wait_for(lambda: sessions(third) == 3, 10, "as many sessions as there may be")
        assert not comes_true(lambda: sessions(third) > 3, 3)
    wait_for(lambda: status(ask(web.url, "/sign-in/")) == 200, 10, "a page")


def test_who_does_not_read_holds_no_turn(start_web: StartWeb, parser: str) -> None:
    """Neither by an answer larger than all buffers, nor by many requests on one connection."""
    web = start_web(parser, **LIMITED)
    with ExitStack() as stack:
        for _ in range(8):
            to = stack.enter_context(connected(web.url, receives=4_096))
            to.sendall(head(f"GET {BUNDLE}") * 5)
        for _ in range(4):
            wait_for(lambda: status(ask(web.url, "/sign-in/")) == 200, 10, "a page beside them")


def test_heads_without_end_are_cut_off(start_web: StartWeb) -> None:
    """So are the second head of a connection, one that comes byte by byte, and one of which nothing comes."""
    web = start_web()
    with ExitStack() as stack:
        kept = stack.enter_context(connected(web.url))
        kept.sendall(head("GET /livez"))
        received = b""
        while b'"ok"' not in received:
            received += kept.recv(65_536)
        kept.sendall(b"GET / HT")
        half = [stack.enter_context(connected(web.url)) for _ in range(100)]
        for one in half:
            one.sendall(b"GET /livez HTTP/1.1\r\nHost: loc")
        silent = stack.enter_context(connected(web.url))
        dripping = stack.enter_context(connected(web.url))
        began = monotonic()

        def is_cut_off() -> bool:
            try:
                dripping.sendall(b"X")
            except OSError:
                return True
            return False

        wait_for(is_cut_off, 20, "an end of what comes byte by byte", every_s=0.3)
        assert monotonic() - began < 15
        for one in (kept, *half, silent):
            assert clients.closed_after_s(one, 5) < 5
        assert status(ask(web.url, "/livez")) == 200


def test_idle_connections_are_few(start_web: StartWeb) -> None:
    web = start_web()
    with ExitStack() as stack:
        idle = [stack.enter_context(connected(web.url)) for _ in range(700)]
        assert status(ask(web.url, "/livez")) == 200
        assert clients.closed_after_s(idle[0], 3) < 3
        assert clients.closed_after_s(idle[-1], 1) == float("inf")


def test_large_heads_are_refused(start_web: StartWeb, parser: str) -> None:
    web = start_web(parser)
    with connected(web.url) as to:
        to.sendall(head("GET /sign-in/", *[f"X-{number}: {'y' * 1_000}" for number in range(40)]))
        assert status(answer(to)) in (400, 431)


@pytest.mark.parametrize(
    "headers",
    [
        ("Content-Length: 5", "Transfer-Encoding: chunked"),
        ("Transfer-Encoding: chunked", "Content-Length: 5"),
        ("transfer-encoding: Chunked", "content-length: 0"),
        ("Content-Length: 5", "Content-Length: 6"),
    ],
)
def test_a_request_of_two_lengths_is_refused(start_web: StartWeb, parser: str, headers: tuple[str, ...]) -> None:
    """And so is what follows it, which a proxy that handed it on may have taken for the body."""
    web = start_web(parser)
    with connected(web.url) as to:
        to.sendall(head("POST /sign-in/", *headers) + b"0\r\n\r\n" + head("GET /livez"))
        received = answer(to)
    assert status(received) == 400
    assert received.count(b"HTTP/1.1 ") == 1
