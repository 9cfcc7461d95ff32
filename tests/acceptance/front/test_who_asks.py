"""The client of a request, as the log has it, and what is wrong with the request: one line each."""

import json
from typing import Any
from uuid import uuid4

from tests.acceptance.front import clients
from tests.acceptance.front.clients import ask, status
from tests.acceptance.front.conftest import StartWeb
from tests.acceptance.web_process import Shared
from tests.waiting import wait_for

FORGED = (
    "X-Forwarded-For: 203.0.113.9",
    "X-Real-IP: 203.0.113.9",
    "Forwarded: for=203.0.113.9",
    "CF-Connecting-IP: 203.0.113.9",
)
PROXIED = {
    "203.0.113.9": "203.0.113.9",
    "8.8.8.8, 203.0.113.9": "203.0.113.9",
    "8.8.8.8, ::ffff:203.0.113.9": "203.0.113.9",
    "2001:db8::1": "2001:db8::1",
    "garbage": "127.0.0.1",
    "203.0.113.9, garbage": "127.0.0.1",
    "0.0.0.0": "127.0.0.1",  # noqa: S104
    "unknown": "127.0.0.1",
    "": "127.0.0.1",
    "203.0.113.9, 127.0.0.1": "203.0.113.9",
}


def addresses(web: Shared, *headers: str) -> set[str]:
    """Ask for a page, and return the client that the two lines of that request name."""
    name = f"asked-by-the-test-{uuid4().hex}"
    assert status(ask(web.url, "/sign-in/", *headers, f"X-Request-ID: {name}")) == 200

    def logged() -> list[dict[str, Any]]:
        found = [json.loads(line) for line in web.logged().splitlines() if name in line]
        return [line for line in found if line["correlation_id"] == name and line["event"].startswith("request_")]

    wait_for(lambda: len(logged()) == 2, 10, "the lines")
    return {line["ip"] for line in logged()}


def test_the_log_has_who_connects(start_web: StartWeb) -> None:
    web = start_web()
    assert {header: addresses(web, header) for header in FORGED} == {header: {"127.0.0.1"} for header in FORGED}


def test_the_log_has_who_a_proxy_stands_for(start_web: StartWeb) -> None:
    """If the header has no valid address, the proxy's own counts."""
    web = start_web(WEIR_TLS_PROXIES="127.0.0.1")
    found = {told: addresses(web, f"X-Forwarded-For: {told}", "X-Forwarded-Proto: https") for told in PROXIED}
    assert found == {told: {believed} for told, believed in PROXIED.items()}


def test_a_wrong_request_is_one_line(start_web: StartWeb, parser: str) -> None:
    """Any client can send one: a host that is not allowed, a URL in no encoding, a form without its token."""
    web = start_web(parser)
    with clients.connected(web.url) as to:
        to.sendall(b"GET /sign-in/ HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n")
        assert status(clients.answer(to)) == 400
    wait_for(web.logged, 10, "a line")
    [line] = web.logged().splitlines()
    found = json.loads(line)
    assert found["level"] == "warning"
    assert "evil.example" in found["event"]
    assert "exception" not in found
    assert status(ask(web.url, "/sign-in/?x=%FF\xff")) in (200, 400)
    assert "Traceback" not in web.logged()
