"""Who is to blame for an attempt that ended without an answer."""

import asyncio
import errno
import socket
import ssl
from collections.abc import Awaitable, Callable

import pytest
from aiohappyeyeballs import start_connection

from tests.cases import for_each
from weir.workers.fetches.addresses import AddressRefused
from weir.workers.fetches.fetcher.http.faults import (
    ConnectionTooSlow,
    Fault,
    LookupFailed,
    LookupTimedOut,
    Party,
    Respect,
    fault_of,
)
from weir.workers.fetches.fetcher.http.reachability import OTHERS, ROW, Reachability
from weir.workers.fetches.fetcher.wire.answers import AnswerTooLarge, NotHttp
from weir.workers.fetches.fetcher.wire.connection import ConnectionEnded

TRIED = {(socket.AF_INET, ("192.0.2.9", 80))}


def connecting(number: int) -> Exception:
    return OSError(number, "text")


def looking_up(error: OSError) -> Exception:
    return LookupFailed(error)


def unknown(number: int) -> Exception:
    return looking_up(socket.gaierror(number, "text"))


BEFORE: list[tuple[Exception, Party, Respect | None]] = [
    (unknown(socket.EAI_NONAME), Party.SITE, Respect.LOOKUP),
    (unknown(socket.EAI_NODATA), Party.SITE, Respect.LOOKUP),
    (unknown(socket.EAI_AGAIN), Party.UNCLEAR, Respect.LOOKUP),
    (unknown(socket.EAI_FAIL), Party.UNCLEAR, Respect.LOOKUP),
    (unknown(socket.EAI_MEMORY), Party.OURS, Respect.LOOKUP),
    (unknown(socket.EAI_SYSTEM), Party.OURS, Respect.LOOKUP),
    (looking_up(LookupTimedOut("text")), Party.UNCLEAR, Respect.LOOKUP),
    (looking_up(OSError(errno.EMFILE, "text")), Party.OURS, Respect.LOOKUP),
    (connecting(errno.ECONNREFUSED), Party.SITE, Respect.CONNECTION),
    (connecting(errno.ECONNRESET), Party.SITE, Respect.CONNECTION),
    (connecting(errno.EHOSTUNREACH), Party.UNCLEAR, Respect.CONNECTION),
    (connecting(errno.EADDRNOTAVAIL), Party.UNCLEAR, Respect.CONNECTION),
    (connecting(errno.ETIMEDOUT), Party.UNCLEAR, Respect.CONNECTION),
    (connecting(errno.EMFILE), Party.OURS, Respect.CONNECTION),
    (connecting(errno.ENFILE), Party.OURS, Respect.CONNECTION),
    (connecting(errno.ENOBUFS), Party.OURS, Respect.CONNECTION),
    (connecting(errno.ENOMEM), Party.OURS, Respect.CONNECTION),
    (connecting(errno.ENETDOWN), Party.OURS, Respect.CONNECTION),
    (MemoryError(), Party.OURS, Respect.CONNECTION),
    (TimeoutError(), Party.UNCLEAR, Respect.CONNECTION),
    (ssl.SSLCertVerificationError(1, "text"), Party.SITE, Respect.CONNECTION),
    (ConnectionTooSlow("text"), Party.SITE, None),
    (AddressRefused("text"), Party.SITE, None),
]
AFTER: list[tuple[Exception, Party, Respect | None]] = [
    (TimeoutError(), Party.UNCLEAR, Respect.ANSWER),
    (ConnectionEnded("text"), Party.SITE, Respect.ANSWER),
    (OSError(errno.ECONNRESET, "text"), Party.SITE, Respect.ANSWER),
    (OSError(errno.ENETUNREACH, "text"), Party.UNCLEAR, Respect.ANSWER),
    (NotHttp("text"), Party.SITE, Respect.ANSWER),
    (MemoryError(), Party.OURS, Respect.ANSWER),
    (AnswerTooLarge("text"), Party.SITE, None),
]


def judged(error: Exception, *, written: bool, has_route: bool = True, to_site: bool = False) -> Fault:
    def tell(addresses: object = None) -> bool:
        return to_site if addresses == TRIED else has_route

    return fault_of(error, written=written, tried=TRIED, has_route=tell)


@for_each(("error", "party", "respect"), BEFORE)
def test_a_fault_before_the_request(error: Exception, party: Party, respect: Respect | None) -> None:
    """What other sites may share with it is unclear at first."""
    fault = judged(error, written=False)
    assert (fault.party, fault.respect) == (party, respect)


@for_each(("error", "party", "respect"), AFTER)
def test_a_fault_after_the_request(error: Exception, party: Party, respect: Respect | None) -> None:
    """The site has our request: what it does with that is its own."""
    fault = judged(error, written=True)
    assert (fault.party, fault.respect) == (party, respect)


def caused(by: BaseException) -> Exception:
    error = OSError(errno.EIO, "text")
    error.__cause__ = by
    return error


@for_each("by", [MemoryError(), OSError(errno.ENOBUFS, "text"), caused(MemoryError())])
def test_a_body_that_this_host_cuts_off_is_not_the_sites_fault(by: Exception) -> None:
    """The error tells, or its cause."""
    assert judged(by, written=True).party is Party.OURS
    assert judged(caused(by), written=True).party is Party.OURS
    assert judged(OSError(errno.ECONNRESET, "text"), written=True).party is Party.SITE


def test_a_host_without_routes_does_not_blame_sites() -> None:
    """One that has routes, but none to this site's family of addresses, does."""
    assert judged(connecting(errno.ENETUNREACH), written=False, has_route=False).party is Party.OURS
    assert judged(connecting(errno.ENETUNREACH), written=False, has_route=True).party is Party.SITE


def test_a_host_without_free_ports_does_not_blame_sites() -> None:
    """It has an address of its own to connect from; where it has none of the site's family, other sites tell."""
    assert judged(connecting(errno.EADDRNOTAVAIL), written=False, to_site=True).party is Party.OURS
    assert judged(connecting(errno.EADDRNOTAVAIL), written=False, to_site=False).party is Party.UNCLEAR


@for_each(
    ("numbers", "party"),
    [
        ((errno.ENETUNREACH, errno.ECONNREFUSED), Party.SITE),
        ((errno.ENETUNREACH, errno.EHOSTUNREACH), Party.UNCLEAR),
        ((errno.ENETUNREACH, errno.EADDRNOTAVAIL), Party.OURS),
        ((errno.EHOSTUNREACH, errno.ENOBUFS), Party.OURS),
    ],
)
def test_addresses_of_a_site_that_fail_in_different_ways(numbers: tuple[int, ...], party: Party) -> None:
    """Most sites have addresses of both families, and many hosts a network of one: one error stands for both."""

    async def connect() -> None:
        loop = asyncio.get_running_loop()
        failing = iter(numbers)

        async def sock_connect(_socket: socket.socket, address: object) -> None:
            raise OSError(next(failing), f"Connect call failed {address}")

        loop.sock_connect = sock_connect  # type: ignore[assignment,method-assign]
        addresses = ("192.0.2.9", "192.0.2.10")
        await start_connection([(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 80)) for address in addresses])

    with pytest.raises(OSError, match="Multiple") as raised:
        asyncio.run(connect())
    assert judged(raised.value, written=False, to_site=True).party is party


def test_a_refused_connection_is_one_sentence_with_what_to_do() -> None:
    """Where there are several addresses, all are named; where one fails in another way, the reasons are."""
    tried = {*TRIED, (socket.AF_INET6, ("2001:db8::9", 80, 0, 0))}
    texts = "[Errno 111] Connect call failed ('192.0.2.9', 80), [Errno 111] Connect call failed ('2001:db8::9', 80)"
    for error, addresses, places in (
        (connecting(errno.ECONNREFUSED), TRIED, "192.0.2.9 port 80"),
        (OSError(texts), tried, "192.0.2.9 port 80 and 2001:db8::9 port 80"),
    ):
        fault = fault_of(error, written=False, tried=addresses, has_route=lambda *_: True)
        assert fault.error == (
            f"connection refused by {places} (ECONNREFUSED): no server listens there, so check the URL's host and port"
        )
    mixed = OSError(texts.replace("111", "113", 1))
    assert judged(mixed, written=False).error == (
        "not connected to 192.0.2.9 port 80: Connection refused, No route to host"
    )


@for_each("error", [AddressRefused("text"), AnswerTooLarge("text")])
def test_what_would_end_the_same_is_permanent(error: Exception) -> None:
    assert judged(error, written=False).permanent


def together(act: Callable[[Reachability], Awaitable[list[bool]]]) -> list[bool]:
    async def run() -> list[bool]:
        return await act(Reachability())

    return asyncio.run(run())


def test_where_many_sites_fail_and_none_is_reached_the_fault_is_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are told so at once, and so is the next one."""

    async def fail(known: Reachability) -> list[bool]:
        first = await asyncio.gather(*(known.is_our_fault(Respect.CONNECTION, site) for site in range(OTHERS + 1)))
        return [*first, await known.is_our_fault(Respect.CONNECTION, 99)]

    monkeypatch.setattr("weir.workers.fetches.fetcher.http.reachability.EVIDENCE_S", 60.0)
    assert together(fail) == [True] * (OTHERS + 2)


def test_a_success_while_many_wait_blames_the_sites(monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends what was gathered before, too."""

    async def fail(known: Reachability) -> list[bool]:
        waiting = [asyncio.ensure_future(known.is_our_fault(Respect.LOOKUP, site)) for site in range(OTHERS)]
        await asyncio.sleep(0)
        known.reached(Respect.LOOKUP)
        known.reached(Respect.CONNECTION)
        return await asyncio.gather(*waiting)

    monkeypatch.setattr("weir.workers.fetches.fetcher.http.reachability.EVIDENCE_S", 60.0)
    assert together(fail) == [False] * OTHERS


def test_look_ups_that_fail_wait_for_controls(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many zones fail before any answers: the resolver asks for others, which takes a moment."""

    async def fail(known: Reachability) -> list[bool]:
        zones = [asyncio.ensure_future(known.is_our_fault(Respect.LOOKUP, f"{zone}.example")) for zone in range(500)]
        for _ in range(10):
            await asyncio.sleep(0)
        known.reached(Respect.LOOKUP)
        return await asyncio.gather(*zones)

    monkeypatch.setattr("weir.workers.fetches.fetcher.http.reachability.EVIDENCE_S", 60.0)
    assert together(fail) == [False] * 500


def test_without_controls_many_zones_are_an_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of one zone are not, however many: their name servers are the same."""

    async def fail(known: Reachability) -> list[bool]:
        return await asyncio.gather(*(known.is_our_fault(Respect.LOOKUP, zone) for zone in zones))

    monkeypatch.setattr("weir.workers.fetches.fetcher.http.reachability.EVIDENCE_S", 0.05)
    for zones, is_ours in (["dead.example"] * 50, False), ([f"{zone}.example" for zone in range(OTHERS + 1)], True):
        assert together(fail) == [is_ours] * len(zones)


def test_a_few_sites_that_fail_alone_are_to_blame(monkeypatch: pytest.MonkeyPatch) -> None:
    """However often each of them does; failures in another respect do not count."""

    async def fail(known: Reachability) -> list[bool]:
        return await asyncio.gather(
            *(known.is_our_fault(Respect.CONNECTION, site) for site in (1, 1, 2, 2, 3, 3)),
            *(known.is_our_fault(Respect.LOOKUP, site) for site in (4, 5, 6)),
        )

    monkeypatch.setattr("weir.workers.fetches.fetcher.http.reachability.EVIDENCE_S", 0.05)
    assert together(fail) == [False] * 9


def test_a_site_that_does_not_connect_is_unreachable_after_a_row() -> None:
    """A connection ends the row."""
    known = Reachability()
    assert [known.is_unreachable(1) for _ in range(ROW + 1)] == [False] * (ROW - 1) + [True] * 2
    known.connected(1)
    assert not known.is_unreachable(1)
    assert not known.is_unreachable(2)
