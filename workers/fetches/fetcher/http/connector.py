"""The connector: opens connections to sites, to addresses that the guard permits only (workers.fetches.addresses).

1. The host is looked up (resolver.py). A host that is an address is checked instead.
2. The addresses are tried, each a little after the one before it (RFC 8305, by aiohappyeyeballs), until one connects.
3. TLS shakes hands, with the certificate checked for the host.

On the loop's thread only.
"""

import asyncio
import socket
from collections.abc import MutableSet
from functools import lru_cache, partial
from ipaddress import IPv6Address, ip_address

from aiohappyeyeballs import start_connection
from django.conf import settings

from workers.fetches.addresses import Allowed
from workers.fetches.fetcher.http.faults import LookupFailed, SocketAddress
from workers.fetches.fetcher.http.resolver import AddrInfo, GuardedResolver
from workers.fetches.fetcher.wire.connection import Connection
from workers.fetches.fetcher.wire.requests import Origin
from workers.fetches.fetcher.wire.tls import Tls, context

NEXT_ADDRESS_AFTER_S = 0.25


class Connector:
    """One a fetcher."""

    def __init__(self, allowed: Allowed, resolver: GuardedResolver) -> None:
        self._allowed = allowed
        self._resolver = resolver
        self._context = context()

    async def open(self, origin: Origin, tried: MutableSet[SocketAddress]) -> Connection:
        """Return a connection to the origin that waits for a request; adds to `tried` the addresses that it tries.

        Raises AddressRefused, LookupFailed, NotLookedUp, TimeoutError after WEIR_FETCH_CONNECT_TIMEOUT, OSError, and
        MemoryError.
        """
        addresses = await self._addresses(origin)
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(settings.WEIR_FETCH_CONNECT_TIMEOUT):
            opened = await start_connection(
                addresses,
                happy_eyeballs_delay=NEXT_ADDRESS_AFTER_S,
                interleave=1,
                socket_factory=partial(_noted_socket, tried),
            )
            try:
                opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connection = Connection(opened, loop)
            except BaseException:
                opened.close()
                raise
            try:
                if origin.scheme == "https":
                    await connection.secure(Tls(self._context, origin.host))
                connection.open()
            except BaseException:
                connection.close()
                raise
        return connection

    def close(self) -> None:
        """Begin no more look-ups."""
        self._resolver.close()

    async def _addresses(self, origin: Origin) -> list[AddrInfo]:
        if address := _as_address(origin.host):
            self._allowed.check(address[1], origin.port)
            return [(address[0], socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address[1], origin.port))]
        try:
            if addresses := await self._resolver.resolve(origin.host, origin.port):
                return addresses
        except OSError as error:  # among them AddressRefused
            raise LookupFailed(error) from error
        raise LookupFailed(OSError(f"{origin.host} has no address"))


def _noted_socket(tried: MutableSet[SocketAddress], address: AddrInfo) -> socket.socket:
    """Return a socket for a connection to this address, and note the address."""
    family, kind, protocol, _, place = address
    tried.add((family, place))
    return socket.socket(family, kind, protocol)


@lru_cache(maxsize=10_000)
def _as_address(host: str) -> tuple[socket.AddressFamily, str] | None:
    try:
        address = ip_address(host)
    except ValueError:
        return None
    return (socket.AF_INET6 if isinstance(address, IPv6Address) else socket.AF_INET), str(address)
