"""Who asks, as the log has it, and what is wrong with a request: one line each."""

import json
from typing import Any

import pytest

from tests.acceptance.front import clients
from tests.acceptance.front.clients import ask, status
from tests.acceptance.front.conftest import StartWeb, Web
from tests.waiting import wait_for

FORGED = (
    "X-Forwarded-For: 203.0.113.9",
    "X-Real-IP: 203.0.113.9",
    "Forwarded: for=203.0.113.9",
    "CF-Connecting-IP: 203.0.113.9",
)


ID = "asked-by-the-test"
NAMED = f"X-Request-ID: {ID}"


def addresses(web: Web) -> set[str]:
    """Return what the two lines of the named request have as its client."""

    def logged() -> list[dict[str, Any]]:
        found = [json.loads(line) for line in clients.lines(web.log) if line.startswith("{")]
        return [line for line in found if line.get("correlation_id") == ID and line["event"].startswith("request_")]

    wait_for(lambda: len(logged()) == 2, 10, "the lines")
    return {line["ip"] for line in logged()}


@pytest.mark.parametrize("header", FORGED)
def test_the_log_has_who_connects(start_web: StartWeb, header: str) -> None:
    web = start_web()
    ask(web.url, "/sign-in/", header, NAMED)
    assert addresses(web) == {"127.0.0.1"}


@pytest.mark.parametrize(
    ("told", "believed"),
    [
        ("203.0.113.9", "203.0.113.9"),
        ("8.8.8.8, 203.0.113.9", "203.0.113.9"),
        ("8.8.8.8, ::ffff:203.0.113.9", "203.0.113.9"),
        ("2001:db8::1", "2001:db8::1"),
        ("garbage", "127.0.0.1"),
        ("203.0.113.9, garbage", "127.0.0.1"),
        ("0.0.0.0", "127.0.0.1"),  # noqa: S104
        ("unknown", "127.0.0.1"),
        ("", "127.0.0.1"),
        ("203.0.113.9, 127.0.0.1", "203.0.113.9"),
    ],
)
def test_the_log_has_who_a_proxy_stands_for(start_web: StartWeb, told: str, believed: str) -> None:
    """What is no address counts under the proxy's own."""
    web = start_web(WEIR_TLS_PROXIES="127.0.0.1")
    assert status(ask(web.url, "/sign-in/", f"X-Forwarded-For: {told}", "X-Forwarded-Proto: https", NAMED)) == 200
    assert addresses(web) == {believed}


def test_a_wrong_request_is_one_line(start_web: StartWeb, parser: str) -> None:
    """Anybody can send one: a host that is not allowed, a URL in no encoding, a form without its token."""
    web = start_web(parser)
    before = len(clients.lines(web.log))
    with clients.connected(web.url) as to:
        to.sendall(b"GET /sign-in/ HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n")
        assert status(clients.answer(to)) == 400
    wait_for(lambda: len(clients.lines(web.log)) > before, 10, "a line")
    [line] = clients.lines(web.log)[before:]
    found = json.loads(line)
    assert found["level"] == "warning"
    assert "evil.example" in found["event"]
    assert "exception" not in found
    assert status(ask(web.url, "/sign-in/?x=%FF\xff")) in (200, 400)
    assert "Traceback" not in web.log.read_text()
