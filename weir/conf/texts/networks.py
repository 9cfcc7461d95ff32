"""Networks and ports as text. Pure functions."""

import re
from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Network, ip_network

Network = IPv4Network | IPv6Network
HIGHEST_PORT = 65_535

_PORTS = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?", re.ASCII)


def networks(texts: Iterable[str]) -> tuple[Network, ...]:
    """Return the networks in these texts of a setting; raises ValueError for a text that is not a network."""
    return tuple(ip_network(text.strip()) for text in texts if text.strip())


def ports(texts: Iterable[str]) -> frozenset[int]:
    """Return the ports in these texts of a setting, such as `443` or `8000-8099`; raises ValueError for other text."""
    found: set[int] = set()
    for text in filter(None, map(str.strip, texts)):
        match = _PORTS.fullmatch(text)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
        if not 0 < first <= last <= HIGHEST_PORT:
            raise ValueError(f"{text!r} is neither a port nor a range of ports")
        found.update(range(first, last + 1))
    return frozenset(found)
