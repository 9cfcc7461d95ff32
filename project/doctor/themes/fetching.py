"""What fetchers need from the network, and what they may reach."""

import socket
from collections.abc import Callable, Sequence
from ipaddress import IPv4Network, IPv6Network, ip_network

from django.db import Error

from project.doctor.findings import Check, Level, Verdict, good, warning
from weir.conf import settings
from weir.conf.texts.networks import ports
from weir.ratelimit.models import Site
from weir.workers.fetches.addresses import TRANSLATED

DNS_WITHIN_S = 3.0
EXAMPLE = "example.com"
MOST_SITES = 2  # whose hosts are tried before EXAMPLE
# Networks to which URLs of strangers should not lead: this host, and servers that tell passwords of its cloud.
INNERMOST = [ip_network(text) for text in ("127.0.0.0/8", "::1/128", "169.254.0.0/16", "fe80::/10")]
WIDEST_V4, WIDEST_V6 = 8, 16  # prefix lengths; a network with a shorter prefix is too large to be one's own
MANY_PORTS = 10_000

Network = IPv4Network | IPv6Network


def names(hosts: Sequence[str], look_up: Callable[[str], str]) -> Verdict:
    """Judge whether names can be resolved; `look_up` raises OSError for a host that has no address.

    A host that somebody has misspelt has none: one that has an address is enough.
    """
    unknown: dict[str, str] = {}
    for host in hosts:
        try:
            found = f"{host} is {look_up(host)}"
        except OSError as error:
            unknown[host] = error.strerror or str(error)
        else:
            return good("; ".join([found, *(f"{other} has no address" for other in unknown)]) + ".")
    told = ", ".join(f"{host} ({error})" for host, error in unknown.items())
    return warning(f"None of these names could be resolved: {told}: check this host's DNS, /etc/resolv.conf.")


def networks(allowed: Sequence[Network]) -> Sequence[Verdict]:
    """Judge WEIR_FETCH_ALLOW_NETS."""
    if not allowed:
        return [good("Only public addresses are fetched from.")]
    found = [warning(f"WEIR_FETCH_ALLOW_NETS has {network}, {why}.") for network in allowed if (why := _why(network))]
    return found or [good(f"Public addresses are fetched from, and {', '.join(map(str, allowed))}.")]


def open_ports(number: int) -> Verdict:
    """Judge the number of ports in WEIR_FETCH_ALLOW_PORTS."""
    if number > MANY_PORTS:
        return warning(
            f"WEIR_FETCH_ALLOW_PORTS has {number:,} ports, those of mail servers and databases among them: name the "
            "few that you fetch from, such as 80,443,8080,8443."
        )
    return good(f"{number} ports are fetched from.")


def _why(network: Network) -> str:
    if isinstance(network, IPv6Network) and any(network.subnet_of(outer) for outer in TRANSLATED):
        network = IPv4Network((int(network.network_address) & 0xFFFFFFFF, network.prefixlen - 96))  # its IPv4
    if network.prefixlen < (WIDEST_V4 if network.version == 4 else WIDEST_V6):  # noqa: PLR2004  IPv4
        return "which is a large part of all addresses: name your own networks only"
    if any(network.version == inner.version and network.overlaps(inner) for inner in INNERMOST):
        return "by which URLs of strangers reach this host itself, or its cloud's metadata: for development only"
    return ""


def _look_up(host: str) -> str:
    return str(socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][4][0])


def _hosts() -> list[str]:
    """Return the hosts of the sites with the latest `next_start`, and EXAMPLE."""
    sites = Site.objects.filter(name__regex=r"^[a-z0-9-]+(\.[a-z0-9-]+)*\.[a-z]+$").order_by("-next_start")
    try:
        return [*sites.values_list("name", flat=True)[:MOST_SITES], EXAMPLE]
    except Error:
        return [EXAMPLE]


def _robots() -> Verdict:
    if settings.WEIR_OBEY_ROBOTS:
        return good("robots.txt is obeyed.")
    return warning("WEIR_OBEY_ROBOTS is off: robots.txt is not obeyed where a site does not say otherwise.")


def checks() -> list[Check]:
    """Return the checks of this theme."""
    return [
        Check(name="DNS", ask=lambda: names(_hosts(), _look_up), within_s=DNS_WITHIN_S, at_worst=Level.WARNING),
        Check(name="networks", ask=lambda: networks([*map(ip_network, settings.WEIR_FETCH_ALLOW_NETS)])),
        Check(name="ports", ask=lambda: open_ports(len(ports(settings.WEIR_FETCH_ALLOW_PORTS)))),
        Check(name="robots.txt", ask=_robots),
    ]
