"""The address guard: a fetch connects only to addresses that are routable on the public internet.

Checked three times on every hop: a host that is an address, each answer of the resolver (the connection uses the very
addresses that were checked, so that an answer that changes afterwards changes nothing), and the peer of the opened
connection before the request is written. WEIR_FETCH_ALLOW_NETS exempts networks.
"""

import asyncio
import socket
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from aiohttp.abc import AbstractResolver, ResolveResult

Network = IPv4Network | IPv6Network

# Networks whose last 32 bits are an IPv4 address: NAT64 (RFC 6052) and IPv4-compatible (RFC 4291).
_EMBEDDING = (IPv6Network("64:ff9b::/96"), IPv6Network("::/96"))
# ISATAP (RFC 5214) marks such addresses in any network: the bits before them are these, whatever the universal bit.
_ISATAP = 0x00005EFE
_UNIVERSAL_BIT = 0x02000000
# What some version of Python's ipaddress takes for global: local NAT64 (RFC 8215), 6to4 and its relays, which are gone
# (RFC 7526), documentation (RFC 9637), the block of protocol assignments (RFC 6890) as a whole, and the address under
# which every virtual machine of Azure reaches its host.
_NOT_GLOBAL = tuple(
    ip_network(text)
    for text in (
        "64:ff9b:1::/48", "2002::/16", "3fff::/20", "192.0.0.0/24", "192.88.99.0/24", "168.63.129.16/32",
    )
)  # fmt: skip


class AddressRefused(OSError):
    """The address may not be connected to; the message names it and says why."""


def networks(texts: Iterable[str]) -> tuple[Network, ...]:
    """Return the networks that the setting names; raises ValueError for one that is none."""
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


class GuardedResolver(AbstractResolver):
    """The system's resolver, with a deadline, that returns only addresses which pass the guard."""

    def __init__(self, *, allowed: tuple[Network, ...], timeout_s: float) -> None:
        self._allowed = allowed
        self._timeout_s = timeout_s
        # Threads of its own: a name server that hangs must not use up those of others.
        self._threads = ThreadPoolExecutor(max_workers=16, thread_name_prefix="dns")

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Return the permitted addresses; raises AddressRefused when there are only others, OSError when none."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._timeout_s):
                answers = await loop.run_in_executor(
                    self._threads,
                    lambda: socket.getaddrinfo(host, port, family=family, type=socket.SOCK_STREAM),
                )
        except TimeoutError:
            raise OSError(f"no answer from DNS for {host} within {self._timeout_s:g} s") from None
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

    async def close(self) -> None:
        """Let the threads end."""
        self._threads.shutdown(wait=False, cancel_futures=True)
