"""What the sites log: each request, with the time at which it arrived."""

import os
import re
import signal
import socket
import time
from contextlib import closing

import psutil
import pytest

from demo.fakes.site_log import Answered, read_answers, read_arrivals
from demo.fakes.sites import Sites
from tests.integration.fakes.conftest import ask, client, connect, head_of, logged, logged_now, read_to_end, wait_until

MILLISECOND = 1_000_000


def stop(pid: int) -> None:
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED)


def test_a_request_is_logged_with_its_site_and_path_when_it_arrives(sites: Sites) -> None:
    """The log has the address that was asked, whatever the Host header says, the client's address, and the time."""
    with connect(sites) as connection:
        client_address, _ = connection.getsockname()
        before_ns = time.time_ns()
        connection.sendall(head_of("/ok/when?a=1"))
        connection.recv(1)
        answered_ns = time.time_ns()
    [arrival] = logged(sites, "/ok/when?a=1")
    assert (arrival.host, arrival.client) == (sites.hosts[0], client_address)
    assert before_ns <= arrival.at_ns <= answered_ns


@pytest.mark.parametrize("connected", ["before", "meanwhile"])
def test_a_stopped_process_still_logs_when_a_request_arrived(sites: Sites, connected: str) -> None:
    """A process that was stopped when a request arrived logs the arrival, not the time at which it continued."""
    path = f"/ok/stalled/{connected}"
    with connect(sites) as early_connection:
        early_connection.sendall(head_of("/ok/warm"))
        early_connection.recv(65_536)
        stop(sites.pid)
        try:
            connection = early_connection if connected == "before" else connect(sites)
            before_ns = time.time_ns()
            connection.sendall(head_of(path))
            sent_ns = time.time_ns()
            wait_until(lambda: time.time_ns() > sent_ns + 100 * MILLISECOND)
        finally:
            os.kill(sites.pid, signal.SIGCONT)
        with connection:
            connection.recv(1)
        assert time.time_ns() > sent_ns + 100 * MILLISECOND
    [arrival] = logged(sites, path)
    assert before_ns <= arrival.at_ns < sent_ns + 20 * MILLISECOND


def test_a_request_in_pieces_counts_from_its_first_byte(sites: Sites) -> None:
    """A request that comes in pieces has the time of its first byte; so has the next request behind it."""
    with connect(sites) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(b"GET /ok/pieces HTTP/1.1\r\n")
        begun_ns = time.time_ns()
        wait_until(lambda: time.time_ns() > begun_ns + 50 * MILLISECOND)
        connection.sendall(b"Host: a\r\n\r\n" + head_of("/ok/whole", "Connection: close"))
        assert read_to_end(connection).count(b"HTTP/1.1 200 OK\r\n") == 2
    [arrival], [next_arrival] = logged(sites, "/ok/pieces"), logged(sites, "/ok/whole")
    assert arrival.at_ns < begun_ns + 20 * MILLISECOND
    assert next_arrival.at_ns > begun_ns + 50 * MILLISECOND


def test_a_connection_is_kept_for_more_requests(sites: Sites) -> None:
    """One connection serves many requests, and each has an arrival of its own."""
    with closing(client(sites)) as connection:
        sockets = set()
        for _ in range(3):
            connection.request("GET", "/ok/kept")
            sockets.add(connection.sock)
            assert len(connection.getresponse().read()) == 2_000
    arrivals = logged(sites, "/ok/kept", 3)
    assert len(sockets) == 1
    assert len({arrival.at_ns for arrival in arrivals}) == 3
    assert [arrival.place for arrival in arrivals] == [1, 2, 3]


def test_pipelined_requests_are_answered_in_order_and_logged_at_once(sites: Sites) -> None:
    """A slow answer delays those behind it, but not the log of their arrival."""
    with connect(sites) as connection:
        before_ns = time.time_ns()
        requests = [
            head_of("/slow/200/first"),
            head_of("/status/404/x"),
            head_of("/ok/z", "Connection: close"),
        ]
        connection.sendall(b"".join(requests))
        sent_ns = time.time_ns()
        statuses = re.findall(rb"HTTP/1.1 (\d+)", read_to_end(connection))
    assert statuses == [b"200", b"404", b"200"]
    [last] = logged(sites, "/ok/z")
    assert before_ns <= last.at_ns < sent_ns + 100 * MILLISECOND


def test_what_is_not_a_request_is_not_logged(sites: Sites) -> None:
    """Neither an empty connection, nor half a request, nor what is not HTTP has an arrival."""
    before = sites.log.stat().st_size
    connect(sites).close()
    with connect(sites) as half:
        half.sendall(b"GET /ok/half HTTP/1.1\r\nHost: a\r\n")
    with connect(sites) as nonsense:
        nonsense.sendall(b"hello\r\n\r\n")
        assert read_to_end(nonsense).startswith(b"HTTP/1.1 400 ")
    ask(sites, "/ok/after-nonsense")
    assert [arrival.path for arrival in read_arrivals(sites.log, before)[0]] == ["/ok/after-nonsense"]


def test_who_has_the_answer_finds_both_in_the_logs(sites: Sites) -> None:
    """Nobody has to wait for a log, who has seen that a fetch is done."""
    for number in range(10):
        path = f"/ok/at-once/{number}"
        ask(sites, path)
        assert (len(logged_now(sites, path)), len(answers(sites, path))) == (1, 1)


def test_an_answer_is_logged_with_its_status_when_it_is_sent(sites: Sites) -> None:
    """The time is that of the sending: after the delay, and before the client has the answer."""
    before_ns = time.time_ns()
    ask(sites, "/slow/200/answered")
    answered_ns = time.time_ns()
    [slow] = answers(sites, "/slow/200/answered")
    assert before_ns + 200 * MILLISECOND <= slow.at_ns <= answered_ns
    assert (slow.host, slow.status) == (sites.hosts[0], 200)
    ask(sites, "/status/429/answered")
    assert [answered.status for answered in answers(sites, "/status/429/answered")] == [429]


def test_a_request_without_an_answer_has_none_in_the_log(sites: Sites) -> None:
    """Neither a connection that closes without a byte nor what is no request is answered at a path."""
    before = sites.answers.stat().st_size
    with connect(sites) as closing_one, connect(sites) as nonsense:
        closing_one.sendall(head_of("/close/unanswered"))
        nonsense.sendall(b"hello\r\n\r\n")
        assert read_to_end(closing_one) == b""
        assert read_to_end(nonsense).startswith(b"HTTP/1.1 400 ")
    ask(sites, "/ok/after-unanswered")
    assert [answered.path for answered in read_answers(sites.answers, before)[0]] == ["/ok/after-unanswered"]


def answers(sites: Sites, path: str) -> list[Answered]:
    return [answered for answered in read_answers(sites.answers)[0] if answered.path == path]
