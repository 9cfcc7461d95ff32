"""The fetcher against every published way to make it connect to where it may not: none gets through.

Both ends are watched. This process records each address that any of its sockets is told to connect to. A listener, on
every address of this host, records requests; PORT in the table of forms is its port.
"""

import re
import socket
from collections.abc import Callable, Iterable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from pytest_django import Settings

from demo.fakes import site_log, sites
from tests.answering import answering
from tests.bypass_forms import ANSWERS, FORMS
from tests.integration.conftest import Eventually, Message
from weir.conf import settings as weir_settings
from weir.workers import task_names
from weir.workers.fetches.dispatch import dispatch
from weir.workers.fetches.enqueue import request_fetches
from weir.workers.fetches.fetcher.fetcher import Fetcher
from weir.workers.fetches.fetcher.http.connector import Connector
from weir.workers.fetches.fetcher.http.resolver import AddrInfo
from weir.workers.fetches.models import Fetch, FetchState
from weir.workers.fetches.robots import gate as robots_gate
from weir.workers.fetches.targets import UrlParts

pytestmark = pytest.mark.django_db(transaction=True)

DUAL_STACK = socket.has_dualstack_ipv6()
HERE = ("127.0.0.1", "::1") if DUAL_STACK else ("127.0.0.1",)

FetchAll = Callable[[Iterable[str]], list[Fetch]]


class Asked(BaseHTTPRequestHandler):
    """Answers every request with an empty page."""

    server: "Listener"

    def do_GET(self) -> None:
        self.server.requests.append(self.path)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_arguments: object) -> None:
        """Log nothing."""


class Listener(ThreadingHTTPServer):
    """Listens on every address of this host, and records the address and the path of each request."""

    address_family = socket.AF_INET6 if DUAL_STACK else socket.AF_INET

    def __init__(self) -> None:
        self.connections: list[str] = []
        self.requests: list[str] = []
        super().__init__(("", 0), Asked)

    def server_bind(self) -> None:
        if DUAL_STACK:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, peer = super().get_request()
        self.connections.append(connection.getsockname()[0].removeprefix("::ffff:"))
        return connection, peer


@pytest.fixture
def listener() -> Iterator[Listener]:
    """Return a listener that must not get any request."""
    with answering(Listener()) as running:
        yield running


@pytest.fixture
def connected_to(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the addresses that sockets of this process are told to connect to, as it happens."""
    addresses: list[str] = []
    connect = socket.socket.connect

    def noted(self: socket.socket, address: Any) -> None:
        if self.family != socket.AF_UNIX:
            addresses.append(address[0])
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", noted)
    return addresses


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[str, ...]]:
    """Return the answers of the system's resolver, the outermost edge: this host, except for names put into it."""
    known: dict[str, tuple[str, ...]] = {}

    def getaddrinfo(host: str, port: int, **_options: Any) -> list[tuple[Any, ...]]:
        families = {True: socket.AF_INET6, False: socket.AF_INET}
        return [(families[":" in a], socket.SOCK_STREAM, 6, "", (a, port)) for a in known.get(host, HERE)]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return known


@pytest.fixture
def fetch_all(settings: Settings, messages: list[Message], eventually: Eventually) -> Iterator[FetchAll]:
    """Return a function that fetches URLs as the workers do, and returns how each ended.

    Its fetcher may connect to public addresses only, and to those that a test allows before it calls this.
    """
    settings.WEIR_FETCH_ALLOW_NETS = []
    settings.WEIR_DEFAULT_RATE = "1000/s"  # most forms share a few sites
    fetchers: list[Fetcher] = []

    def requested(urls: Iterable[str]) -> list[Fetch]:
        """Ask for them as a process would whose settings allow them all: the fetcher must not rely on it."""
        allowed, settings.WEIR_FETCH_ALLOW_NETS = settings.WEIR_FETCH_ALLOW_NETS, ["0.0.0.0/0", "::/0"]
        asked = request_fetches(urls, max_attempts=1)
        settings.WEIR_FETCH_ALLOW_NETS = allowed
        return list(asked)

    def run_messages(fetcher: Fetcher) -> bool:
        """Do what is due; return whether that was all."""
        dispatch()
        while messages:
            task, arguments = messages.pop(0)
            if task == task_names.FETCH_BATCH:
                fetcher.run_batch(*arguments)
        return not Fetch.objects.unfinished().exists()

    def fetch(urls: Iterable[str]) -> list[Fetch]:
        fetchers.append(Fetcher())
        asked = requested(urls)
        eventually(lambda: run_messages(fetchers[-1]), "every fetch to end", seconds=60)
        ended = Fetch.objects.in_bulk([each.pk for each in asked])
        return [ended[each.pk] for each in asked]

    yield fetch
    for fetcher in fetchers:
        fetcher.close(1.0)


@pytest.fixture(params=[False, True], ids=["pages", "robots.txt first"])
def _robots(request: pytest.FixtureRequest, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask for robots.txt before a page, or do not."""
    settings.WEIR_OBEY_ROBOTS = request.param
    monkeypatch.setattr(robots_gate, "WAIT", 0.05)


@pytest.fixture
def origin(settings: Settings, fetch_all: FetchAll, tmp_path: Path) -> Iterator[sites.Sites]:  # noqa: ARG001  its settings come first
    """Return the one site on this host that may be fetched from; it redirects to wherever it is asked to."""
    with sites.running(1, tmp_path) as running:
        settings.WEIR_FETCH_ALLOW_NETS = [f"{running.hosts[0]}/32"]
        yield running


def test_what_is_allowed_is_noticed(
    settings: Settings, fetch_all: FetchAll, listener: Listener, connected_to: list[str], names: dict[str, Any]
) -> None:
    """If this host is allowed, its addresses and its names are connected to, and that is seen at both ends."""
    settings.WEIR_FETCH_ALLOW_NETS = ["127.0.0.0/8", "::1/128"]
    names["here.example"] = HERE[-1:]
    hosts = ("127.0.0.1", "127.127.127.127", "localhost", "here.example", *(["[::1]"] if DUAL_STACK else []))
    ended = fetch_all(f"http://{host}:{listener.server_port}/{number}" for number, host in enumerate(hosts))
    assert [fetch.error for fetch in ended] == [""] * len(hosts)
    assert sorted(listener.requests) == [f"/{number}" for number in range(len(hosts))]
    assert set(listener.connections) == set(connected_to) == {"127.0.0.1", "127.127.127.127", *HERE}


@pytest.mark.usefixtures("names", "_robots")
def test_no_form_gets_through(fetch_all: FetchAll, listener: Listener, connected_to: list[str]) -> None:
    """Each form ends refused, with the reason that it should have, and no connection is tried at all."""
    ended = fetch_all(form.at(listener.server_port) for form in FORMS)
    print(f"\n{len(FORMS)} forms requested, {len(connected_to)} through")
    assert (connected_to, listener.connections) == ([], [])
    wrong = {
        form.what: fetch.error
        for form, fetch in zip(FORMS, ended, strict=True)
        if fetch.state != FetchState.FAILED or not re.search(form.refusal, fetch.error)
    }
    assert wrong == {}
    assert Fetch.objects.filter(is_robots=True).exists() == weir_settings.WEIR_OBEY_ROBOTS


@pytest.mark.usefixtures("names", "_robots")
def test_no_redirect_gets_through(
    fetch_all: FetchAll, origin: sites.Sites, listener: Listener, connected_to: list[str]
) -> None:
    """A site that may be fetched from redirects to each form: that is refused, or read as a page of the same site."""
    locations = [form.at(listener.server_port) for form in FORMS]
    locations.append(f"/redirect/{quote(locations[0], safe='')}")  # one more hop
    ended = fetch_all(origin.url(0, f"/redirect/{quote(location, safe='')}") for location in locations)
    strangers = [address for address in connected_to if address != origin.hosts[0]]
    print(f"\n{len(locations)} redirects, {len(strangers)} through")
    assert (strangers, listener.connections) == ([], [])
    assert len(site_log.read_arrivals(origin.log)[0]) > len(locations)
    for fetch, location in zip(ended, locations, strict=True):
        stayed = fetch.hop_url.startswith(origin.url(0, "/"))
        assert stayed or (fetch.state == FetchState.FAILED and fetch.error), location


def test_no_answer_of_a_name_server_gets_through(
    fetch_all: FetchAll, listener: Listener, connected_to: list[str], names: dict[str, Any]
) -> None:
    """Harmless names that resolve to forbidden addresses are refused before a connection is tried."""
    names |= {f"answer-{number}.example": answers for number, answers in enumerate(ANSWERS.values())}
    ended = fetch_all(f"http://{name}:{listener.server_port}/" for name in names)
    print(f"\n{len(ANSWERS)} answers of a name server, {len(connected_to)} through")
    assert (connected_to, listener.connections) == ([], [])
    for name, fetch in zip(names, ended, strict=True):
        assert fetch.state == FetchState.FAILED
        assert f"{name} resolves to " in fetch.error


def test_the_port_of_a_public_address_is_checked_where_it_is_connected_to(
    settings: Settings, fetch_all: FetchAll, connected_to: list[str], names: dict[str, Any]
) -> None:
    """Even for a name, whose address was not known when it was asked for. An allowed network may use any port."""
    settings.WEIR_FETCH_ALLOW_NETS = ["10.0.0.0/8"]
    names["public.example"] = ("93.184.215.14",)
    ended = fetch_all(["http://public.example:6379/", "http://93.184.215.14:25/"])
    assert connected_to == []
    assert [fetch.error for fetch in ended] == [
        "public.example resolves to 93.184.215.14: port 6379 is not allowed; WEIR_FETCH_ALLOW_PORTS can allow it",
        "93.184.215.14: port 25 is not allowed; WEIR_FETCH_ALLOW_PORTS can allow it",
    ]


def test_a_name_with_one_permitted_address_is_fetched_from_that_one(
    fetch_all: FetchAll, origin: sites.Sites, connected_to: list[str], names: dict[str, Any]
) -> None:
    """The forbidden addresses of a name are not even tried, wherever they are among its answers."""
    names["mixed.example"] = (*HERE, "10.0.0.1", origin.hosts[0], "::ffff:127.0.0.1")
    [fetch] = fetch_all([f"http://mixed.example:{origin.port}/"])
    assert fetch.state == FetchState.DONE
    assert set(connected_to) == {origin.hosts[0]}


def test_the_address_that_was_checked_is_the_one_that_is_used(
    fetch_all: FetchAll, origin: sites.Sites, connected_to: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name server that answers a permitted address first and a forbidden one ever after gains nothing."""
    answers = iter([origin.hosts[0]])
    asked = []

    def rebinding(host: str, port: int, **_options: Any) -> list[Any]:
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (next(answers, "127.0.0.1"), port))]

    monkeypatch.setattr(socket, "getaddrinfo", rebinding)
    [first] = fetch_all([f"http://rebind.example:{origin.port}/first"])
    assert first.state == FetchState.DONE
    assert asked == ["rebind.example"], "checked and used the one answer"
    [second] = fetch_all([f"http://rebind.example:{origin.port}/second"])
    assert second.state == FetchState.FAILED
    assert "rebind.example resolves to 127.0.0.1 is loopback" in second.error
    assert set(connected_to) == {origin.hosts[0]}


def test_the_environment_names_no_proxy(
    fetch_all: FetchAll,
    origin: sites.Sites,
    listener: Listener,
    connected_to: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A proxy would connect to whatever it is asked for, unguarded: proxies of the environment are not used."""
    for variable in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(variable, f"http://127.0.0.1:{listener.server_port}")
    [fetch] = fetch_all([origin.url(0, "/")])
    assert fetch.state == FetchState.DONE
    assert (connected_to, listener.connections) == ([origin.hosts[0]], [])


def test_a_connection_to_a_forbidden_address_is_not_written_to(
    fetch_all: FetchAll, listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if every check before the connection failed, the check of its peer remains: nothing is requested."""

    async def addresses(_connector: Connector, to: UrlParts, **_options: bool) -> list[AddrInfo]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (to.host, to.port))]

    monkeypatch.setattr(Connector, "_addresses", addresses)
    [fetch] = fetch_all([f"http://127.0.0.1:{listener.server_port}/"])
    assert fetch.state == FetchState.FAILED
    assert "127.0.0.1 is loopback" in fetch.error
    assert (listener.connections, listener.requests) == (["127.0.0.1"], [])
