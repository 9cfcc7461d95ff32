"""The fake sites judge pacing, so they are judged first: a real process, spoken to over real sockets."""

import gzip
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from http.client import HTTPConnection, HTTPResponse, RemoteDisconnected
from pathlib import Path
from urllib.parse import quote
from urllib.request import urlopen

import psutil
import pytest

from project.demo import sites as sites_module
from project.demo.gaps import Arrival, read_log
from project.demo.sites import Sites, host, listen, running

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 10.0
MILLISECOND = 1_000_000


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sites]:
    with running(3, tmp_path_factory.mktemp("sites")) as started:
        yield started


def wait_until(condition: Callable[[], bool]) -> None:
    give_up_at = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < give_up_at, "It did not come true in time."
        time.sleep(0.001)


def logged(sites: Sites, path: str, count: int = 1) -> list[Arrival]:
    """Wait until so many requests for a path are in the log."""
    wait_until(lambda: len(logged_now(sites, path)) >= count)
    return logged_now(sites, path)


def logged_now(sites: Sites, path: str) -> list[Arrival]:
    return [arrival for arrival in read_log(sites.log)[0] if arrival.path == path]


def client(sites: Sites, host_index: int = 0) -> HTTPConnection:
    return HTTPConnection(sites.hosts[host_index], sites.port, timeout=TIMEOUT_S)


def ask(sites: Sites, path: str, *, method: str = "GET", host_index: int = 0) -> tuple[HTTPResponse, bytes]:
    with closing(client(sites, host_index)) as connection:
        connection.request(method, path)
        response = connection.getresponse()
        return response, response.read()


def connect(sites: Sites) -> socket.socket:
    return socket.create_connection((sites.hosts[0], sites.port), timeout=TIMEOUT_S)


def head_of(path: str, *headers: str) -> bytes:
    return "\r\n".join((f"GET {path} HTTP/1.1", "Host: somewhere.else", *headers, "", "")).encode()


def read_to_end(connection: socket.socket) -> bytes:
    return b"".join(iter(lambda: connection.recv(65_536), b""))


def stop(pid: int) -> None:
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED)


# What a request's arrival is


def test_a_request_is_logged_with_its_site_and_path_when_it_arrives(sites: Sites) -> None:
    """The log has the address that was asked, whatever the Host header says, and the time of the request."""
    with connect(sites) as connection:
        before_ns = time.time_ns()
        connection.sendall(head_of("/ok/when?a=1"))
        connection.recv(1)
        answered_ns = time.time_ns()
    [arrival] = logged(sites, "/ok/when?a=1")
    assert arrival.host == sites.hosts[0]
    assert before_ns <= arrival.at_ns <= answered_ns


@pytest.mark.parametrize("connected", ["before", "meanwhile"])
def test_a_stalled_judge_still_knows_when_a_request_arrived(sites: Sites, connected: str) -> None:
    """A process that was stopped when a request came logs the arrival, not its own awakening."""
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
    """A request that trickles in arrived when it began to; the next one, when that one began to."""
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


def test_pipelined_requests_are_answered_in_order_and_logged_at_once(sites: Sites) -> None:
    """A slow answer holds back those behind it, but not the log of their arrival."""
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
    """Neither a connection that says nothing, nor half a request, nor what is not HTTP has an arrival."""
    before = sites.log.stat().st_size
    connect(sites).close()
    with connect(sites) as half:
        half.sendall(b"GET /ok/half HTTP/1.1\r\nHost: a\r\n")
    with connect(sites) as nonsense:
        nonsense.sendall(b"hello\r\n\r\n")
        assert read_to_end(nonsense).startswith(b"HTTP/1.1 400 ")
    ask(sites, "/ok/after-nonsense")
    logged(sites, "/ok/after-nonsense")
    assert [arrival.path for arrival in read_log(sites.log, before)[0]] == ["/ok/after-nonsense"]


# How the paths behave


@pytest.mark.parametrize("path", ["/ok/page", "/", "/anything?else"])
def test_an_ordinary_path_answers_a_page(sites: Sites, path: str) -> None:
    """Whatever has no other meaning is a page of the given size that can be revalidated."""
    response, body = ask(sites, path)
    assert (response.status, len(body)) == (200, 2_000)
    assert response.headers["Content-Type"] == "text/html"
    assert response.headers["ETag"]
    assert response.headers["Last-Modified"]


@pytest.mark.parametrize("path", ["/ok/x", "/big/5000", "/drip/x", "/gzipbomb/1"])
def test_head_answers_the_headers_alone(sites: Sites, path: str) -> None:
    """HEAD states the length that GET would have, sends no body, and leaves the connection usable."""
    with closing(client(sites)) as connection:
        connection.request("HEAD", path)
        response = connection.getresponse()
        assert int(response.headers["Content-Length"]) > 0
        assert response.read() == b""
        connection.request("GET", "/ok/after-head")
        assert connection.getresponse().status == 200


def test_urllib_can_read_a_site(sites: Sites) -> None:
    """A `Connection: close` client gets the page by its URL, and the connection closed."""
    with urlopen(sites.url(2, "/ok/urllib"), timeout=TIMEOUT_S) as response:  # noqa: S310 it is http
        assert len(response.read()) == 2_000
    assert logged(sites, "/ok/urllib")[0].host == sites.hosts[2]
    with connect(sites) as connection:
        connection.sendall(head_of("/ok/x", "connection: close"))
        assert read_to_end(connection).startswith(b"HTTP/1.1 200 OK\r\n")


def test_a_slow_page_comes_late_and_keeps_nobody_else_waiting(sites: Sites) -> None:
    """The answer waits at least so many ms; another connection is answered meanwhile."""
    with closing(client(sites)) as waiting:
        began = time.monotonic()
        waiting.request("GET", "/slow/300/x")
        logged(sites, "/slow/300/x")
        ask(sites, "/ok/meanwhile")
        answered_another_after_s = time.monotonic() - began
        assert len(waiting.getresponse().read()) == 2_000
        slow_after_s = time.monotonic() - began
    assert answered_another_after_s < 0.3 <= slow_after_s


def test_a_client_that_does_not_wait_for_a_slow_page_harms_nobody(sites: Sites) -> None:
    """What is still to be sent to a closed connection is dropped, and the judge goes on."""
    with connect(sites) as impatient:
        impatient.sendall(head_of("/slow/100/given-up"))
        logged(sites, "/slow/100/given-up")
    assert ask(sites, "/slow/300/later")[0].status == 200


@pytest.mark.parametrize(("code", "length"), [(404, "6"), (429, "6"), (503, "6"), (599, "6"), (204, None), (304, None)])
def test_a_status_on_demand(sites: Sites, code: int, length: str | None) -> None:
    """The status is the one in the path, without a body where its meaning allows none."""
    response, _ = ask(sites, f"/status/{code}/x")
    assert (response.status, response.headers["Content-Length"]) == (code, length)


def test_a_flaky_path_recovers_at_each_site_by_itself(sites: Sites) -> None:
    """A key fails for its first n requests, then works; other keys and other sites count for themselves."""
    statuses = [ask(sites, "/flaky/2/a")[0].status for _ in range(4)]
    others = [ask(sites, "/flaky/1/b")[0].status, ask(sites, "/flaky/2/a", host_index=1)[0].status]
    assert (statuses, others) == ([503, 503, 200, 200], [503, 503])


@pytest.mark.parametrize(
    ("path", "location"),
    [
        (f"/redirect/{quote('http://127.1.0.2:81/a?b=c', safe='')}", "http://127.1.0.2:81/a?b=c"),
        ("/redirect/%2Fok%2Fx", "/ok/x"),
        ("/loop/3", "/loop/4"),
        ("/loop/99", "/loop/0"),
    ],
)
def test_redirects(sites: Sites, path: str, location: str) -> None:
    """A redirect goes where its path says, and a loop to its next number, for ever."""
    response, _ = ask(sites, path)
    assert (response.status, response.headers["Location"]) == (302, location)


def test_a_closing_path_answers_nothing_but_has_arrived(sites: Sites) -> None:
    """The connection closes without a byte; the request was made, so it counts."""
    with pytest.raises(RemoteDisconnected):
        ask(sites, "/close/x")
    assert len(logged(sites, "/close/x")) == 1


def test_a_dripping_body_comes_at_a_byte_a_second(sites: Sites) -> None:
    """The headers come at once, the body byte by byte; who gives up on it leaves the site in order."""
    with closing(client(sites)) as connection:
        began = time.monotonic()
        connection.request("GET", "/drip/x")
        response = connection.getresponse()
        assert time.monotonic() - began < 0.9
        assert response.headers["Content-Length"] == "2000"
        assert response.read(2) == b"ww"
        assert 1.9 < time.monotonic() - began < 4
    assert ask(sites, "/ok/x")[0].status == 200


def test_a_big_body_is_made_while_it_is_sent(sites: Sites) -> None:
    """However much is asked for and not taken, the process stays small and answers others."""
    size = 200_000_001
    with closing(client(sites)) as connection:
        connection.request("GET", f"/big/{size}")
        response = connection.getresponse()
        assert ask(sites, "/ok/x")[0].status == 200
        received = sum(map(len, iter(lambda: response.read(1_000_000), b"")))
        assert psutil.Process(sites.pid).memory_info().rss < size / 2
    assert received == size


def test_a_gzip_bomb_is_small_until_it_is_unpacked(sites: Sites) -> None:
    """A thousandth is sent of what comes out."""
    response, body = ask(sites, "/gzipbomb/5")
    assert response.headers["Content-Encoding"] == "gzip"
    assert len(body) < 10_000
    assert len(gzip.decompress(body)) == 5_000_000


def test_a_bad_header_has_bytes_that_are_not_utf8(sites: Sites) -> None:
    """The header's bytes are sent as they are."""
    with connect(sites) as connection:
        connection.sendall(head_of("/badheader/x", "Connection: close"))
        assert b"\r\nX-Bad: \xff\xfe\r\n" in read_to_end(connection)


def test_a_body_without_length_ends_with_the_connection(sites: Sites) -> None:
    """No length is stated, and the connection is closed after the body."""
    with connect(sites) as connection:
        connection.sendall(head_of("/nolength/x"))
        answer = read_to_end(connection)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"content-length" not in head.lower()
    assert len(body) == 2_000


def test_there_is_no_robots_txt(sites: Sites) -> None:
    """Everything is allowed."""
    assert ask(sites, "/robots.txt")[0].status == 404


@pytest.mark.parametrize("path", ["/slow/soon/x", "/status/", "/big/x", "/loop", f"/slow/{'9' * 400}"])
def test_a_path_without_its_number_is_the_clients_mistake(sites: Sites, path: str) -> None:
    """What makes no sense is a 400, and does not end the judge."""
    assert ask(sites, path)[0].status == 400


def test_only_get_and_head_are_served(sites: Sites) -> None:
    """Another method is refused, and counts as a request."""
    assert ask(sites, "/ok/posted", method="POST")[0].status == 405
    assert len(logged(sites, "/ok/posted")) == 1


# The process


def test_every_request_is_in_the_log_when_the_process_has_ended(tmp_path: Path) -> None:
    """On SIGTERM what was noted is written; the ready file says that the kernel gave every time."""
    with running(2, tmp_path, body_size=10) as ended, connect(ended) as unfinished:
        for _ in range(100):
            assert len(ask(ended, "/ok/counted", host_index=1)[1]) == 10
        unfinished.sendall(head_of("/drip/x"))
        unfinished.recv(1)
        began = time.monotonic()
    assert time.monotonic() - began < 2
    assert len(logged_now(ended, "/ok/counted")) == 100
    state = json.loads((tmp_path / "sites.json").read_text())
    assert state == {
        "port": ended.port,
        "hosts": ["127.1.0.1", "127.1.0.2"],
        "pid": ended.pid,
        "requests": 101,
        "reads_without_kernel_time": 0,
    }


def test_the_sites_end_with_the_process_that_started_them(tmp_path: Path) -> None:
    """A killed parent cannot tidy up, so the kernel does."""
    script = (
        "import os, pathlib, signal, sys; from project.demo.sites import running\n"
        "with running(1, pathlib.Path(sys.argv[1])) as sites:\n"
        "    print(sites.pid, flush=True); os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        orphan = int(parent.stdout.readline())
    try:
        wait_until(lambda: has_ended(orphan))
    finally:
        with suppress(ProcessLookupError):
            os.kill(orphan, signal.SIGKILL)


def has_ended(pid: int) -> bool:
    """Return whether a process is gone, or has ended without anyone to take notice."""
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def test_sites_that_cannot_start_say_so(tmp_path: Path) -> None:
    """Who starts sites learns at once that they did not."""
    began = time.monotonic()
    with pytest.raises(RuntimeError, match="did not start"), running(0, tmp_path):
        pass
    assert time.monotonic() - began < TIMEOUT_S


def test_a_judge_that_ended_early_is_not_believed(tmp_path: Path) -> None:
    """Sites that were killed meanwhile are an error on leaving, not a log with few requests."""
    with ExitStack() as leaving:
        killed = leaving.enter_context(running(1, tmp_path))
        os.kill(killed.pid, signal.SIGKILL)
        wait_until(lambda: has_ended(killed.pid))
        with pytest.raises(RuntimeError, match="ended with -9"):
            leaving.close()


def test_another_port_is_tried_where_one_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """A port that is free on the first address but not on the second is given up for another."""
    create_server = socket.create_server
    rivals: list[socket.socket] = []

    def create_after_a_rival(address: tuple[str, int], *, backlog: int) -> socket.socket:
        if address[1] and not rivals:
            rivals.append(create_server(address))
        return create_server(address, backlog=backlog)

    monkeypatch.setattr(socket, "create_server", create_after_a_rival)
    listeners = listen([host(0), host(1)], 0)
    names = [listener.getsockname() for listener in listeners]
    rival_port = rivals[0].getsockname()[1]
    for opened in [*listeners, *rivals]:
        opened.close()
    assert [name[0] for name in names] == ["127.1.0.1", "127.1.0.2"]
    assert names[0][1] == names[1][1] != rival_port


def test_a_port_asked_for_and_taken_is_an_error() -> None:
    """No other port is taken than the one that was asked for."""
    with socket.create_server((host(0), 0)) as rival, pytest.raises(OSError, match="in use"):
        listen([host(0)], rival.getsockname()[1])


@pytest.mark.parametrize(
    ("index", "address"),
    [(0, "127.1.0.1"), (249, "127.1.0.250"), (250, "127.1.1.1"), (63_999, "127.1.255.250")],
)
def test_addresses_follow_from_numbers(index: int, address: str) -> None:
    """The same number is the same address, everywhere and always."""
    assert host(index) == address


@pytest.mark.parametrize("index", [-1, 64_000])
def test_there_are_only_so_many_addresses(index: int) -> None:
    """A number without an address is an error."""
    with pytest.raises(ValueError, match="Sites are numbered"):
        host(index)


def test_the_sites_know_no_django() -> None:
    """The judge starts quickly and depends on nothing it judges."""
    script = (
        "import runpy, sys; runpy.run_path(sys.argv[1])\n"
        "print(sorted({'django', 'celery', 'ratelimit', 'project'} & set(sys.modules)))"
    )
    found = subprocess.run(
        [sys.executable, "-P", "-c", script, sites_module.__file__],
        capture_output=True,
        check=True,
        text=True,
    )
    assert found.stdout == "[]\n"


def test_the_sites_can_be_started_as_a_module() -> None:
    """`python -m project.demo.sites` is how a person or a supervisor starts them."""
    asked = subprocess.run(
        [sys.executable, "-m", "project.demo.sites", "--help"],
        cwd=ROOT,
        capture_output=True,
        check=True,
        text=True,
    )
    assert "--ready" in asked.stdout
