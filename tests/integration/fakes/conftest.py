"""The fake sites, whose log decides other tests, are tested themselves: a real process, over real sockets."""

import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from http.client import HTTPConnection, HTTPResponse

import pytest

from demo.fakes.site_log import Arrival, read_arrivals
from demo.fakes.sites import Sites, running
from tests.waiting import wait_for

TIMEOUT_S = 10.0


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sites]:
    with running(3, tmp_path_factory.mktemp("sites")) as started:
        yield started


def wait_until(condition: Callable[[], bool]) -> None:
    wait_for(condition, TIMEOUT_S, "what the fake sites do", every_s=0.001)


def logged(sites: Sites, path: str, count: int = 1) -> list[Arrival]:
    """Wait until so many requests for a path are in the log: who has no answer yet cannot know that they are."""
    wait_until(lambda: len(logged_now(sites, path)) >= count)
    return logged_now(sites, path)


def logged_now(sites: Sites, path: str) -> list[Arrival]:
    return [arrival for arrival in read_arrivals(sites.log)[0] if arrival.path == path]


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
