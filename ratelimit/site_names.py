"""The names of sites, and which of them may cover which: pure."""

import re
from ipaddress import IPv6Address

import idna

MAX_LENGTH = 300
NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*", re.ASCII)  # the last label of an address, or of what is taken for one
_SITE = re.compile(r"(?P<host>\[[^\]\s]+\]|[^\s:/@?#\[\]\x00-\x1f\x7f]+)(?P<port>:[0-9]{1,5})?")


class InvalidSiteName(ValueError):
    """The text cannot name a site; the message says what a name looks like."""


def canonical(name: str) -> str:
    """Return the one spelling of a site's name: the host as it stands in a URL, and `:port` where given.

    One site must never have two sites, so every way in goes through here: lower case, IDNA, no trailing dot, IPv6
    compressed. Raises InvalidSiteName for an empty or overlong text, for a URL or a path, which would be a site of its own
    for each page, and for a pattern, which would be a site of nobody.
    """
    if "*" in name:
        raise InvalidSiteName(
            f"{name!r} is a pattern, which names no site: name the host above all of them, with --covers-subdomains."
        )
    match = _SITE.fullmatch(name.strip().lower())
    try:
        host = _canonical_host(match["host"]) if match else ""
    except ValueError:  # idna's and ipaddress' errors
        host = ""
    site = host + ((match and match["port"]) or "")
    if not host or len(site) > MAX_LENGTH:
        raise InvalidSiteName(
            f"{name!r} does not name a site: write its host, such as api.example.com or example.com:8080."
        )
    return site


def ancestors(site: str) -> list[str]:
    """Return the names above a site, nearest first: those whose site may cover it."""
    host, colon, port = site.partition(":")
    if host.startswith("[") or NUMBER.fullmatch(host.rpartition(".")[2]):
        return []
    labels = host.split(".")
    return [".".join(labels[i:]) + colon + port for i in range(1, len(labels))]


def _canonical_host(host: str) -> str:
    if host.startswith("["):
        return f"[{IPv6Address(host[1:-1]).compressed}]"
    host = host.rstrip(".")
    return host if host.isascii() else idna.encode(host, uts46=True).decode()  # as yarl does
