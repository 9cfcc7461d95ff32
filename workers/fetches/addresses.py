"""The address guard: a fetch connects only to addresses that are routable on the public internet.

Three checks on every hop, with `check_address`:
1. A host that is an address is checked before it is connected to (fetcher/http/session.py).
2. Of a host that is a name, each address that the resolver returns (fetcher/http/resolver.py). The connection uses the
   very addresses that were checked, so that a DNS answer that changes afterwards changes nothing.
3. The peer of the opened connection, before the request is written (fetcher/http/paced_request.py).

WEIR_FETCH_ALLOW_NETS exempts networks.
"""

from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Network = IPv4Network | IPv6Network

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
