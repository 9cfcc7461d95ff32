"""The address guard: a fetch connects only to addresses that are routable on the public internet.

Three checks on every hop, with `check_address`:
1. A host that is an address is checked before it is connected to (session.py).
2. Of a host that is a name, each address that the resolver returns (`GuardedResolver`). The connection uses the very
   addresses that were checked, so that a DNS answer that changes afterwards changes nothing.
3. The peer of the opened connection, before the request is written (paced_request.py).

WEIR_FETCH_ALLOW_NETS exempts networks.
"""

import asyncio
import math
import socket
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from aiohttp.abc import AbstractResolver, ResolveResult

Network = IPv4Network | IPv6Network
Answers = Sequence[tuple[socket.AddressFamily, socket.SocketKind, int, str, tuple[str | int | bytes, ...]]]

# Lookups at once, each in a thread; threads are made when they are needed. A lookup of the system's resolver cannot be
# stopped: where name servers hang, it keeps its thread for some 10 to 30 s.
MOST_LOOKUPS = 256
# Networks whose last 32 bits are an IPv4 address: NAT64 (RFC 6052) and IPv4-compatible (RFC 4291).
_EMBEDDING = (IPv6Network("64:ff9b::/96"), IPv6Network("::/96"))
# ISATAP (RFC 5214) marks such addresses in any network: the bits before them are these, whatever the universal bit.
_ISATAP = 0x00005EFE
_UNIVERSAL_BIT = 0x02000000
# Networks that some version of Python's ipaddress takes for global: local NAT64 (RFC 8215), 6to4 and its relays, which
# are gone (RFC 7526), documentation (RFC 9637), the block of protocol assignments (RFC 6890) as a whole, and the
# address under which every virtual machine of Azure reaches its host.
_NOT_GLOBAL = tuple(
    ip_network(text)
    for text in (
        "64:ff9b:1::/48", "2002::/16", "3fff::/20", "192.0.0.0/24", "192.88.99.0/24", "168.63.129.16/32",
    )
)  # fmt: skip


class AddressRefused(OSError):
    """The address may not be connected to; the message names it and says why."""


class NotLookedUp(Exception):
    """Lookups of other hosts had all threads, so this host was not looked up; that is no fault of the host."""


def networks(texts: Iterable[str]) -> tuple[Network, ...]:
    """Return the networks that the setting names; raises ValueError for a text that is no network."""
    return tuple(ip_network(text.strip()) for text in texts if text.strip())


def check_address(text: str, allowed: tuple[Network, ...]) -> None:
    """Raise AddressRefused unless the address is globally routable unicast, or in an allowed network."""
    if reason := _refusal(text, allowed):
        raise AddressRefused(f"{text} is {reason}; WEIR_FETCH_ALLOW_NETS can allow its network")


@lru_cache(maxsize=10_000)
def _refusal(text: str, allowed: tuple[Network, ...]) -> str | None:
    address = ip_address(text.partition("%")[0])
    if any(address in network for network in allowed if network.version == address.version):
        return None
    plain = _embedded(address)
    if plain is not address and any(plain in network for network in allowed if network.version == plain.version):
        return None
    return _reason(plain) or _reason(address)


def _embedded(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    if isinstance(address, IPv4Address):
        return address
    if address.ipv4_mapped:
        return address.ipv4_mapped
    is_isatap = (int(address) >> 32) & 0xFFFFFFFF & ~_UNIVERSAL_BIT == _ISATAP
    if (is_isatap or any(address in network for network in _EMBEDDING)) and int(address) > 1:  # :: and ::1: themselves
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address


def _reason(address: IPv4Address | IPv6Address) -> str | None:
    for property_name, words in (
        ("is_unspecified", "unspecified"),
        ("is_loopback", "loopback"),
        ("is_link_local", "link-local"),
        ("is_multicast", "multicast"),
        ("is_private", "private"),
        ("is_reserved", "reserved"),
    ):
        if getattr(address, property_name):
            return words
    is_hidden = isinstance(address, IPv6Address) and (address.is_site_local or address.teredo is not None)
    is_listed = any(address in network for network in _NOT_GLOBAL if network.version == address.version)
    return "not globally routable" if is_hidden or is_listed or not address.is_global else None


class Lookup:
    """One lookup by the system's resolver. It goes on in its thread also when no fetch waits for it any more."""

    def __init__(self, threads: ThreadPoolExecutor, host: str, family: socket.AddressFamily) -> None:
        self.began_at = math.inf  # it has no thread yet
        self.answers = asyncio.wrap_future(threads.submit(self._ask, host, family))

    def _ask(self, host: str, family: socket.AddressFamily) -> Answers:
        self.began_at = time.monotonic()
        return socket.getaddrinfo(host, None, family=family, type=socket.SOCK_STREAM)


class GuardedResolver(AbstractResolver):
    """The system's resolver, with a deadline, that returns only addresses which pass the guard.

    A host has one lookup at a time, which all fetches of the host wait for. So a host whose name servers hang takes one
    thread from others, however often it is fetched from.
    """

    def __init__(self, *, allowed: tuple[Network, ...], timeout_s: float) -> None:
        self._allowed = allowed
        self._timeout_s = timeout_s
        self._threads = ThreadPoolExecutor(max_workers=MOST_LOOKUPS, thread_name_prefix="dns")
        self._lookups: dict[tuple[str, socket.AddressFamily], Lookup] = {}

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Return the permitted addresses.

        Raises AddressRefused when there are only others, OSError when none, NotLookedUp when no thread was free for the
        lookup until half of the time was over.
        """
        answers = await self._look_up(host, family)
        permitted: list[ResolveResult] = []
        refused: AddressRefused | None = None
        for answer_family, _, protocol, _, address in answers:
            try:
                check_address(str(address[0]), self._allowed)
            except AddressRefused as error:
                refused = error
                continue
            permitted.append(
                ResolveResult(
                    hostname=host,
                    host=str(address[0]),
                    port=port,
                    family=answer_family,
                    proto=protocol,
                    flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
                )
            )
        if not permitted and refused is not None:
            raise AddressRefused(f"{host} resolves to {refused}")
        return permitted

    async def _look_up(self, host: str, family: socket.AddressFamily) -> Answers:
        key = (host, family)
        lookup = self._lookups.get(key)
        if lookup is None:
            lookup = self._lookups[key] = Lookup(self._threads, host, family)
            lookup.answers.add_done_callback(partial(self._ended, key))
        await asyncio.wait([lookup.answers], timeout=self._timeout_s)  # at the deadline the lookup goes on
        if lookup.answers.done():
            return lookup.answers.result()
        if time.monotonic() - lookup.began_at < self._timeout_s / 2:
            raise NotLookedUp(f"{MOST_LOOKUPS} lookups of other hosts go on")
        raise OSError(f"no answer from DNS for {host} within {self._timeout_s:g} s")

    def _ended(self, key: tuple[str, socket.AddressFamily], answers: asyncio.Future[Answers]) -> None:
        del self._lookups[key]
        if not answers.cancelled():
            answers.exception()  # retrieved, or asyncio logs it where no fetch waits for the lookup any more

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
