"""The connector: of a host with many addresses, a few are tried at once, and fewer where descriptors are scarce."""

import asyncio
import socket
import ssl
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest
import trustme

from tests.unit.wire.pairs import until
from weir.conf.texts.networks import networks
from weir.workers.fetches.addresses import Allowed
from weir.workers.fetches.fetcher.http import connector, descriptors
from weir.workers.fetches.fetcher.http.connector import TOGETHER, Connector
from weir.workers.fetches.fetcher.http.faults import SocketAddress
from weir.workers.fetches.fetcher.wire.connection import WireState
from weir.workers.fetches.targets import parts_of

MANY = 16
URL = "http://site.example/"


class Resolver:
    """It knows one host, which has these addresses."""

    def __init__(self, places: Sequence[tuple[str, int]]) -> None:
        self._places = places

    async def resolve(self, _host: str, _port: int, **_options: bool) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", place) for place in self._places]


class Hanging:
    """In place of what connects: nothing does, but for this address. It counts what is tried at once."""

    def __init__(self, good: str = "") -> None:
        self.good = good
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.groups: list[list[str]] = []
        self.now = self.most = 0

    async def __call__(self, addresses: Sequence[Any], **_options: Any) -> socket.socket:
        hosts = [place[0] for *_, place in addresses]
        self.groups.append(hosts)
        self.now += len(hosts)
        self.most = max(self.most, self.now)
        try:
            if self.good in hosts:
                return socket.create_connection(self.listener.getsockname())
            await asyncio.sleep(60)
            raise AssertionError
        finally:
            self.now -= len(hosts)


def many() -> list[str]:
    return [f"127.1.0.{number}" for number in range(1, MANY + 1)]


def made(resolver: Resolver) -> Connector:
    return Connector(Allowed(networks=networks(["127.0.0.0/8"])), resolver)  # type: ignore[arg-type]


async def opened(resolver: Resolver, tried: set[SocketAddress]) -> None:
    connection = await made(resolver).open(parts_of(URL), tried)
    connection.close()


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connector, "PATIENCE_S", 0.01)
    monkeypatch.setattr(connector, "NEXT_ADDRESS_AFTER_S", 0.0)


def test_the_addresses_of_a_host_are_tried_a_few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """One after the other would take too long where the first ones hang; all at once take a socket each."""
    addresses = many()
    hanging = Hanging(good=addresses[-1])
    monkeypatch.setattr(connector, "start_connection", hanging)
    asyncio.run(opened(Resolver([(address, 80) for address in addresses]), set()))
    assert hanging.groups == [addresses[start : start + TOGETHER] for start in range(0, MANY, TOGETHER)]
    assert hanging.most == TOGETHER


def test_hosts_of_many_addresses_that_hang_leave_descriptors_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many such hosts there are, each fetch has one socket, and all together a bounded number beside."""
    monkeypatch.setattr(descriptors, "_limit", lambda: 200)
    hanging = Hanging()
    monkeypatch.setattr(connector, "start_connection", hanging)

    async def act() -> None:
        one = made(Resolver([(address, 80) for address in many()]))
        opening = [asyncio.create_task(one.open(parts_of(URL), set())) for _ in range(50)]
        last = many()[-1]  # has all the time that is left
        await until(lambda: sum(last in group for group in hanging.groups) == len(opening))
        for each in opening:
            each.cancel()
            with suppress(asyncio.CancelledError):
                await each
        assert one._beside == 0

    asyncio.run(act())
    assert 50 < hanging.most <= 50 + 200 * descriptors.BESIDE
    assert {len(group) for group in hanging.groups} == {1, TOGETHER}


def test_a_host_with_an_underscore_may_stand_behind_a_star() -> None:
    """As browsers and curl have it; OpenSSL, by itself, does not."""
    authority, theirs = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("*.site.example").configure_cert(theirs)

    async def act(host: str) -> WireState:
        server = await asyncio.start_server(lambda _reader, _writer: None, "127.0.0.1", 0, ssl=theirs)
        place = server.sockets[0].getsockname()
        one = made(Resolver([place]))
        for each in (one._context, one._without_names):
            authority.configure_trust(each)
        connection = await one.open(parts_of(f"https://{host}:{place[1]}/"), set())
        try:
            return connection.state
        finally:
            connection.close()
            server.close()

    for host in ("ab.site.example", "a_b.site.example"):
        assert asyncio.run(act(host)) is WireState.WAITING
    with pytest.raises(ssl.SSLCertVerificationError):
        asyncio.run(act("a_b.other.example"))


def test_where_none_connects_the_error_is_that_of_the_last_ones() -> None:
    """It names them alone: a failure is read by people."""
    tried: set[SocketAddress] = set()
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # nobody listens there
        port = held.getsockname()[1]
        with pytest.raises(ConnectionRefusedError):
            asyncio.run(opened(Resolver([(address, port) for address in many()]), tried))
    assert {address[0] for _, address in tried} == set(many()[-TOGETHER:])
