"""The address guard: a fetch connects only to addresses that are routable on the public internet, and to web ports.

Three checks on every hop, with `Allowed.check`:
1. A host that is an address is checked before it is connected to (fetcher/http/connector.py).
2. For a host that is a name, each address that the resolver returns is checked (fetcher/http/resolver.py). The
   connection uses exactly the addresses that were checked, so a DNS answer that changes afterwards has no effect.
3. The peer of the opened connection is checked before the request is written (fetcher/http/attempt.py).

A proxy looks names up itself, so Weir does not see the address of a site behind one, and checks the host and the port
of the URL only (`check_unseen`). So no proxy is used but those of WEIR_FETCH_PROXIES, whose own addresses are not
checked: who names a proxy lets fetches go wherever it lets them.

A URL that itself names something forbidden is refused earlier: when it is asked for, and when a redirect leads there
(`Allowed.check_host`, targets.py).

WEIR_FETCH_ALLOW_NETS exempts networks, and all their ports: an operator who names a network knows what listens there.
WEIR_FETCH_ALLOW_PORTS holds everywhere else. It lists the allowed ports, because a list of forbidden ones would need
the port of every server that a request could harm: the list of browsers
(https://fetch.spec.whatwg.org/#port-blocking) has only mail, chat and files, and lets 6379 (Redis), 11211 (memcached)
and 9200 (Elasticsearch) pass.
"""

from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network

from weir.conf import settings
from weir.conf.texts.networks import Network, networks, ports

# Networks whose addresses are translated to the IPv4 address at their end, and so reach that host: by NAT64 (RFC 6052,
# under which they are as globally reachable as the IPv4 address), and by the operating system itself, which translates
# IPv4-mapped addresses (RFC 4291).
_NAT64 = IPv6Network("64:ff9b::/96")
TRANSLATED = (_NAT64, IPv6Network("::ffff:0:0/96"))
# Networks whose addresses end in an IPv4 address: those above, and IPv4-compatible (RFC 4291).
_EMBEDDING = (*TRANSLATED, IPv6Network("::/96"))
# ISATAP (RFC 5214) marks such addresses in any network: these bits precede the IPv4 address. The universal bit may be
# set or not.
_ISATAP = 0x00005EFE
_UNIVERSAL_BIT = 0x02000000
# Networks that some version of Python's ipaddress calls global: local NAT64 (RFC 8215), IPv4-mapped (RFC 4291),
# 6to4 and its relays, which are gone (RFC 7526), documentation (RFC 9637), the block of protocol assignments (RFC 6890)
# as a whole, and the address under which every virtual machine of Azure reaches its host.
_NOT_GLOBAL = tuple(
    ip_network(text)
    for text in (
        "64:ff9b:1::/48", "::ffff:0:0/96", "2002::/16", "3fff::/20",
        "192.0.0.0/24", "192.88.99.0/24", "168.63.129.16/32",
    )
)  # fmt: skip

# Besides the setting, `manage.py up` has an option for these.
_SWITCHES = {"loopback": ", as `make up ARGS=--allow-loopback` does"}

NOT_GLOBAL = "not globally routable"


class AddressRefused(OSError):
    """The address may not be connected to; the message names it and says why."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Allowed:
    """What fetches may connect to: these networks besides public addresses, and these ports outside the networks."""

    networks: tuple[Network, ...] = ()
    ports: frozenset[int] = frozenset({80, 443})

    def check(self, address: str, port: int) -> None:
        """Raise AddressRefused unless the port of the address may be connected to."""
        check_address(address, self.networks)
        if port not in self.ports and not is_in(address, self.networks):
            raise AddressRefused(f"{address}: {_refused_port(port)}")

    def check_host(self, host: str, port: int) -> None:
        """Raise AddressRefused if host and port of a URL already show that it may not be connected to.

        The address of a name is not known yet. So if networks are allowed, the port of a name is left to `check`.
        """
        if _is_address(host):
            self.check(host, port)
        elif port not in self.ports and not self.networks:
            raise AddressRefused(_refused_port(port))

    def check_unseen(self, host: str, port: int) -> None:
        """Raise AddressRefused if host and port of a URL already show that no proxy may be asked to connect to it."""
        self.check_host(host, port)
        if port not in self.ports and not _is_address(host):
            raise AddressRefused(_refused_port(port))


def allowed_by_settings() -> Allowed:
    """Return what WEIR_FETCH_ALLOW_NETS and WEIR_FETCH_ALLOW_PORTS allow."""
    return _allowed(tuple(settings.WEIR_FETCH_ALLOW_NETS), tuple(settings.WEIR_FETCH_ALLOW_PORTS))


@lru_cache(maxsize=10)
def _allowed(network_texts: tuple[str, ...], port_texts: tuple[str, ...]) -> Allowed:
    return Allowed(networks=networks(network_texts), ports=ports(port_texts))


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _refused_port(port: int) -> str:
    return f"port {port} is not allowed; WEIR_FETCH_ALLOW_PORTS can allow it"


def check_address(text: str, allowed: tuple[Network, ...]) -> None:
    """Raise AddressRefused unless the address is globally routable unicast, or in an allowed network."""
    if reason := _refusal(text, allowed):
        remedy = f"WEIR_FETCH_ALLOW_NETS can allow its network{_SWITCHES.get(reason, '')}"
        raise AddressRefused(f"{text} is {reason}; {remedy}")


@lru_cache(maxsize=10_000)
def _refusal(text: str, allowed: tuple[Network, ...]) -> str | None:
    if is_in(text, allowed):
        return None
    address = ip_address(text.partition("%")[0])
    return _reason(_embedded(address)) or (None if address in _NAT64 else _reason(address))


@lru_cache(maxsize=10_000)
def is_in(text: str, allowed: tuple[Network, ...]) -> bool:
    """Return whether the address, or the IPv4 address that it is translated to, is in one of the networks.

    The owner of any other IPv6 address chooses its end: an IPv4 address there may forbid it, but never allows it.
    """
    address = ip_address(text.partition("%")[0])
    is_translated = any(address in network for network in TRANSLATED)
    meant = (address, _embedded(address)) if is_translated else (address,)
    return any(one in network for one in meant for network in allowed)


def _embedded(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    if isinstance(address, IPv4Address):
        return address
    is_isatap = (int(address) >> 32) & 0xFFFFFFFF & ~_UNIVERSAL_BIT == _ISATAP
    if (is_isatap or any(address in network for network in _EMBEDDING)) and int(address) > 1:  # not :: and ::1
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address


def _reason(address: IPv4Address | IPv6Address) -> str | None:
    if any(address in network for network in _NOT_GLOBAL if network.version == address.version):
        return NOT_GLOBAL  # before ipaddress is asked, because its answer for these depends on Python's version
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
    return NOT_GLOBAL if is_hidden or not address.is_global else None
