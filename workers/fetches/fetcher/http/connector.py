"""The connector: opens connections to sites, only to addresses that the guard permits (weir.workers.fetches.addresses).

1. The host is looked up (resolver.py). A host that is an address is checked instead.
2. The addresses are tried, each a little after the one before it (RFC 8305, by aiohappyeyeballs), until one connects:
   at most TOGETHER of them together, or one after the other if other fetches use the descriptors set aside for this.
3. If the site has a proxy, 1 and 2 are about the proxy, which opens a tunnel, or gets requests without TLS as they are.
4. The TLS handshake follows; it checks the certificate for the host.

On the loop's thread only.
"""

import asyncio
import errno
import os
import socket
from collections.abc import MutableSet
from functools import lru_cache, partial
from ipaddress import IPv6Address, ip_address

from aiohappyeyeballs import start_connection

from weir.conf import settings
from weir.workers.fetches.addresses import AddressRefused, Allowed
from weir.workers.fetches.fetcher.http import descriptors
from weir.workers.fetches.fetcher.http.faults import HandshakeTimedOut, LookupFailed, SocketAddress
from weir.workers.fetches.fetcher.http.resolver import AddrInfo, GuardedResolver
from weir.workers.fetches.fetcher.networks import USUAL, Network, context_of
from weir.workers.fetches.fetcher.wire.connection import SLOW_READ_EVERY_S, HttpConnection
from weir.workers.fetches.fetcher.wire.handshakes import Handshakes
from weir.workers.fetches.fetcher.wire.requests import tunnel_head
from weir.workers.fetches.fetcher.wire.tls import Tls, context, context_without_names
from weir.workers.fetches.fetcher.wire.turns import Turns
from weir.workers.fetches.targets import UrlParts

NEXT_ADDRESS_AFTER_S = 0.25
TOGETHER = 4  # addresses of one host that are tried together, each with a socket
PATIENCE_S = 1.0  # seconds after which the next addresses, if there are any, replace those that are being tried


class Connector:
    """Opens connections; each fetcher has one."""

    def __init__(self, allowed: Allowed, resolver: GuardedResolver) -> None:
        self._allowed = allowed
        self._resolver = resolver
        self._context, self._without_names = context(), context_without_names()
        self._slow_reads = Turns(loop := asyncio.get_running_loop(), every_s=SLOW_READ_EVERY_S)
        self._handshakes = Handshakes(loop)
        self._beside = 0  # sockets that are set aside for further addresses, besides one for each host
        self._most_beside = descriptors.most_beside()

    async def open(self, to: UrlParts, tried: MutableSet[SocketAddress], network: Network = USUAL) -> HttpConnection:
        """Return a connection to the host of a URL, ready for a request; `tried` gets the addresses tried last.

        Raises AddressRefused, LookupFailed, NotLookedUp, TimeoutError after WEIR_FETCH_CONNECT_TIMEOUT, OSError,
        MemoryError, and UnsendableRequest.
        """
        proxy = network.proxy
        if proxy:
            self._allowed.check_unseen(to.host, to.port)
        addresses = await self._addresses(proxy.place if proxy else to, is_guarded=proxy is None)
        loop = asyncio.get_running_loop()
        until = loop.time() + settings.WEIR_FETCH_CONNECT_TIMEOUT
        async with asyncio.timeout_at(until):
            opened = await self._connected(addresses, tried)
        try:
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection = HttpConnection(opened, loop, self._slow_reads, by_proxy=proxy is not None)
        except BaseException as error:
            opened.close()
            if isinstance(error, OSError) and error.errno == errno.ENOTCONN:  # the peer has reset it already
                raise ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET)) from error
            raise
        try:
            if to.scheme == "https":
                if proxy:
                    async with asyncio.timeout_at(until):
                        await connection.tunnel(tunnel_head(to.host, to.port, proxy.headers))
                await self._secure(connection, to.host, until, network)
            connection.open()
        except BaseException:
            connection.close()
            raise
        return connection

    def close(self) -> None:
        """Begin no more look-ups."""
        self._resolver.close()

    async def _connected(self, addresses: list[AddrInfo], tried: MutableSet[SocketAddress]) -> socket.socket:
        """Return a socket that is connected to one of the addresses; if none connects, raise the error of the last."""
        while True:
            together = TOGETHER if self._beside + TOGETHER - 1 <= self._most_beside else 1
            now, addresses = addresses[:together], addresses[together:]
            patience_s = PATIENCE_S + NEXT_ADDRESS_AFTER_S * (len(now) - 1) if addresses else None
            tried.clear()
            self._beside += len(now) - 1
            try:
                async with asyncio.timeout(patience_s):
                    return await start_connection(
                        now,
                        happy_eyeballs_delay=NEXT_ADDRESS_AFTER_S,
                        interleave=1,
                        socket_factory=partial(_noted_socket, tried),
                    )
            except OSError:
                if not addresses:
                    raise
            finally:
                self._beside -= len(now) - 1

    async def _secure(self, connection: HttpConnection, host: str, until: float, network: Network) -> None:
        try:
            async with asyncio.timeout_at(until):
                used = self._without_names if "_" in host else self._context
                if network.has_context:
                    of_it = partial(context_of, network.ca, network.certificate, checks_names="_" not in host)
                    used = await asyncio.to_thread(of_it)
                await connection.secure(Tls(used, host), self._handshakes)
        except TimeoutError as error:
            if error.errno is not None:  # the kernel's time-out, not ours
                raise
            raise HandshakeTimedOut from error

    async def _addresses(self, to: UrlParts, *, is_guarded: bool) -> list[AddrInfo]:
        if address := _as_address(to.host):
            if is_guarded:
                self._allowed.check(address[1], to.port)
            return [(address[0], socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address[1], to.port))]
        try:
            if addresses := await self._resolver.resolve(to.host, to.port, is_guarded=is_guarded):
                return addresses
        except AddressRefused:
            raise
        except OSError as error:
            raise LookupFailed(error) from error
        raise LookupFailed(socket.gaierror(socket.EAI_NODATA, "No address associated with hostname"))


def _noted_socket(tried: MutableSet[SocketAddress], address: AddrInfo) -> socket.socket:
    """Return a socket for a connection to this address, and add the address to `tried`."""
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
