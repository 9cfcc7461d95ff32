"""Clients that do not speak HTTP, or read nothing: each costs at most one line of the log, and ends in time."""

import json
import signal
import socket
from contextlib import ExitStack
from time import monotonic
from typing import Any

import psutil
import psycopg
import pytest

from project.front.server import MOST_S
from tests.acceptance.front import clients
from tests.acceptance.front.clients import answer, ask, connected, head, health, status
from tests.acceptance.front.conftest import StartWeb
from tests.acceptance.front.test_bounds import BUNDLE, slow_logins, some_token
from tests.acceptance.web_process import Shared
from tests.waiting import comes_true, in_time, wait_for

GRACE_S = 20.0
AT_ONCE = 3_000  # connections that are opened together
WAITING = 700  # requests: more than there is room for
UPGRADE = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA")


def process_of(web: Shared) -> psutil.Process:
    return psutil.Process(clients.listens(web.url))


def open_connections(process: psutil.Process) -> int:
    return len([one for one in process.net_connections("tcp") if one.status != "LISTEN"])


def said_by_uvicorn(web: Shared) -> list[str]:
    """Return its lines that are worse than information."""
    found = [json.loads(line) for line in web.logged().splitlines() if line.startswith("{")]
    return [line["event"] for line in found if line["logger"].startswith("uvicorn") and line["level"] != "info"]


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (head("POST /livez", "Transfer-Encoding: chunked"), b"no chunk\r\n\r\n"),
        (head("POST /api/v1/fetches", "Transfer-Encoding: chunked"), b"no chunk\r\n\r\n"),
        (head("POST /sign-in/", "Transfer-Encoding: chunked"), b"no chunk\r\n\r\n"),
        (head("GET /livez"), b"no head\r\n\r\n"),
        (head("CONNECT /livez"), b"\x16\x03\x01"),
        (head("GET /sign-in/", 'Cookie: sessionid="\\000aaaaaaaaaaaaaaaa"'), b""),
        (head("GET /livez", *UPGRADE), b""),
    ],
    ids=["chunk after an answer", "after 401", "within a body", "behind an answer", "CONNECT", "NUL", "upgrade"],
)
def test_what_is_no_request_is_a_line_at_most(start_web: StartWeb, first: bytes, then: bytes) -> None:
    """It may come after a good request, which is answered."""
    web = start_web()
    with connected(web.url) as to:
        to.sendall(first)
        first_answer = to.recv(65_536) if then and b"sign-in" not in first else b""
        to.sendall(then)
        received = first_answer + answer(to)
    assert status(received) in (200, 400, 401, 501)
    assert status(ask(web.url, "/livez")) == 200
    assert said_by_uvicorn(web) in ([], ["Invalid HTTP request received."])
    assert "Traceback" not in web.logged()


@pytest.mark.parametrize(
    "request_", [head("CONNECT /livez"), head("GET /sign-in/", 'Cookie: sessionid="\\000aaaaaaaaaaaaaaaa"')]
)
def test_a_head_that_no_application_understands_is_refused(start_web: StartWeb, parser: str, request_: bytes) -> None:
    web = start_web(parser)
    with connected(web.url) as to:
        to.sendall(request_)
        assert status(answer(to)) in (400, 501)
    assert "Traceback" not in web.logged()


def test_an_upgrade_is_not_talked_about(start_web: StartWeb) -> None:
    """Java's client asks for one with each request."""
    web = start_web()
    assert status(ask(web.url, "/livez", *UPGRADE)) == 200
    assert not said_by_uvicorn(web)


def test_connections_end_whose_answers_are_not_read(start_fresh: StartWeb) -> None:
    """So do those that uvicorn has closed: it waits until the client has read all that it has written."""
    web = start_fresh()
    process = process_of(web)
    with ExitStack() as stack:
        for _ in range(20):
            stack.enter_context(connected(web.url, receives=4_096)).sendall(head(f"GET {BUNDLE}") * 5)
        wait_for(lambda: open_connections(process) == 20, 10, "connections")
        wait_for(lambda: open_connections(process) == 0, 25, "their end")
    assert not said_by_uvicorn(web)


@pytest.mark.parametrize("loop", ["", "--loop asyncio"])
def test_idle_connections_are_few_however_many_come_at_once(start_fresh: StartWeb, loop: str) -> None:
    """The process is busy for a moment, and then takes all of them in one turn of its loop. It closes in the next one.

    By then, none of these has been open for long enough to be closed for another reason: the test checks that last.
    """
    web = start_fresh(loop)
    process = process_of(web)
    with ExitStack() as stack:
        process.send_signal(signal.SIGSTOP)
        for _ in range(AT_ONCE):
            one = stack.enter_context(socket.socket())
            one.setblocking(False)
            one.connect_ex(("127.0.0.1", clients.port_of(web.url)))
        began_at = monotonic()
        process.send_signal(signal.SIGCONT)
        wait_for(lambda: status(ask(web.url, "/livez")) == 200, 10, "an answer beside them")
        assert comes_true(lambda: open_connections(process) <= 500 + 10, 5), open_connections(process)
        in_time(monotonic() - began_at < MOST_S, "connections may have been closed as they had no head")


def test_health_is_told_whatever_else_waits(start_web: StartWeb, other: psycopg.Connection[Any]) -> None:
    """More requests wait for their turn than there is room for."""
    web = start_web(WEIR_WEB_REQUESTS="3")
    assert set(health(web.url, "/healthz", "/readyz", "/sign-in/").values()) == {200}
    with ExitStack() as stack, slow_logins(other):
        for _ in range(WAITING):
            stack.enter_context(connected(web.url)).sendall(head("GET /api/v1/status", some_token()))
        asked = health(web.url, "/healthz", "/readyz")
        busy = status(ask(web.url, "/sign-in/"))
    assert asked == {"/healthz": 200, "/readyz": 200}
    assert busy == 503


def test_a_client_that_reads_slowly_does_not_hold_up_the_end(start_fresh: StartWeb) -> None:
    """Neither does one that reads nothing, nor one that would take minutes."""
    processes: dict[int, psutil.Process] = {}  # by the rate at which its clients read
    slow: dict[int, list[socket.socket]] = {}
    with ExitStack() as stack:
        for rate in (0, 4_096):
            web = start_fresh()
            processes[rate] = process_of(web)
            slow[rate] = [stack.enter_context(connected(web.url, receives=4_096)) for _ in range(3)]
            for one in slow[rate]:
                one.sendall(head(f"GET {BUNDLE}") * 3)
                assert one.recv(100)
        for process in processes.values():
            process.terminate()
        asked_at = monotonic()

        def have_ended() -> bool:
            for rate, those in slow.items():
                for one in those if rate and _runs(processes[rate]) else []:
                    one.recv(rate)
            return not any(map(_runs, processes.values()))

        wait_for(have_ended, 3 * GRACE_S, "their end", every_s=0.1)
        assert monotonic() - asked_at < GRACE_S


def _runs(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
