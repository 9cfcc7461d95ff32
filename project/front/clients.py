"""Who the client of a request is: the peer that connects, or the client that a proxy of WEIR_TLS_PROXIES names.

The last address in `X-Forwarded-For` that is not such a proxy is the client's. If the text there is not the address of
a host, the peer counts as the client. The same holds if a proxy on another host names a loopback address.

A socket for IPv4 and IPv6 (`--workers`, `--fd`) shows IPv4 addresses in their IPv4-mapped form. Both forms of an
address name the same proxy or client.
"""

from collections.abc import Iterator, Sequence
from ipaddress import IPv4Address, IPv6Network, ip_address, ip_network
from typing import Any, Final, cast

from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from project.front.refusals import Application, Receive, Scope, Send

_PEER: Final = "weir.peer"
_MAPPED: Final = IPv6Network("::ffff:0:0/96")


class KnownClients:
    """An ASGI application that passes requests on to another one, with the believed client and scheme."""

    def __init__(self, other: Application, proxies: Sequence[str]) -> None:
        self._other = other
        trusted = [form for text in proxies for form in _forms(text)]
        self._told: Any = ProxyHeadersMiddleware(cast("Any", self._checked), trusted_hosts=trusted)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[_PEER] = scope.get("client")
        await self._told(scope, receive, send)

    async def _checked(self, scope: Scope, receive: Receive, send: Send) -> None:
        peer, client = scope[_PEER], scope.get("client")
        if client and client is not peer and not _is_credible(client[0], peer[0]):
            scope["client"] = peer
        await self._other(scope, receive, send)


def _forms(text: str) -> Iterator[str]:
    """Yield a network, and its IPv4-mapped or plain form, if it has one."""
    network = ip_network(text)
    yield text
    if network.version == _MAPPED.version:
        if network.subnet_of(_MAPPED):
            yield f"{IPv4Address(int(network.network_address) & 0xFFFFFFFF)}/{network.prefixlen - _MAPPED.prefixlen}"
    else:
        yield f"::ffff:{network.network_address}/{_MAPPED.prefixlen + network.prefixlen}"


def _is_credible(client: str, peer: str) -> bool:
    try:
        said, connects = ip_address(client), ip_address(peer)
    except ValueError:
        return False
    said, connects = (getattr(address, "ipv4_mapped", None) or address for address in (said, connects))
    if said.is_unspecified or said.is_multicast or getattr(said, "scope_id", None):  # a zone means nothing here
        return False
    return not said.is_loopback or connects.is_loopback
