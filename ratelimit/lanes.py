"""The names of lanes, and which of them may cover which: pure."""

import re
from ipaddress import IPv6Address

import idna

MAX_LENGTH = 300
NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*", re.ASCII)  # the last label of an address, or of what is taken for one
_LANE = re.compile(r"(?P<host>\[[^\]\s]+\]|[^\s:/@?#\[\]\x00-\x1f\x7f]+)(?P<port>:[0-9]{1,5})?")


class InvalidLane(ValueError):
    """The text cannot name a lane; the message says what a name looks like."""


def canonical(name: str) -> str:
    """Return the one spelling of a lane's name: the host as it stands in a URL, and `:port` where given.

    One site must never have two lanes, so every way in goes through here: lower case, IDNA, no trailing dot, IPv6
    compressed. Raises InvalidLane for an empty or overlong text, for a URL or a path, which would be a lane of its own
    for each page, and for a pattern, which would be a lane of nobody.
    """
    if "*" in name:
        raise InvalidLane(
            f"{name!r} is a pattern, which names no site: name the host above all of them, with --covers-subdomains."
        )
    match = _LANE.fullmatch(name.strip().lower())
    try:
        host = _canonical_host(match["host"]) if match else ""
    except ValueError:  # idna's and ipaddress' errors
        host = ""
    lane = host + ((match and match["port"]) or "")
    if not host or len(lane) > MAX_LENGTH:
        raise InvalidLane(
            f"{name!r} does not name a site: write its host, such as api.example.com or example.com:8080."
        )
    return lane


def ancestors(lane: str) -> list[str]:
    """Return the names above a lane, nearest first: those whose site may cover it."""
    host, colon, port = lane.partition(":")
    if host.startswith("[") or NUMBER.fullmatch(host.rpartition(".")[2]):
        return []
    labels = host.split(".")
    return [".".join(labels[i:]) + colon + port for i in range(1, len(labels))]


def _canonical_host(host: str) -> str:
    if host.startswith("["):
        return f"[{IPv6Address(host[1:-1]).compressed}]"
    host = host.rstrip(".")
    return host if host.isascii() else idna.encode(host, uts46=True).decode()  # as yarl does
