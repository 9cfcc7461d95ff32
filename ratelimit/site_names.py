"""The names of sites, and which site may cover which: pure functions."""

import re
import shlex
from ipaddress import IPv6Address

import idna

MAX_LENGTH = 300
NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*", re.ASCII)  # as the last label: the host is an IPv4 address, in any form
_CHARACTER = r"[^\s:/@?#\[\]\x00-\x1f\x7f]"  # what a URL's path can have, so that each site has a page
_SITE = re.compile(rf"(?P<host>\[(?:{_CHARACTER}|:)+\]|{_CHARACTER}+)(?P<port>:[0-9]{{1,5}})?")


class InvalidSiteName(ValueError):
    """The text is not the name of a site; the message shows what a name looks like."""


def canonical(name: str) -> str:
    """Return the one spelling of a site's name: the host as it stands in a URL, and `:port` where given.

    Two spellings of a host must not become two sites. So every name that comes from outside goes through here: lower
    case, IDNA, no trailing dot, IPv6 compressed. Raises InvalidSiteName for an empty text, one of more than 300
    characters, a URL or a path, which would be a site for each page, and a pattern, which no host is called.
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


def as_argument(site: str) -> str:
    """Return the name as a shell takes it: brackets are its patterns."""
    return shlex.quote(site)


def ancestors(site: str) -> list[str]:
    """Return the names of the sites that may cover this one, nearest first; none for an IP address."""
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
