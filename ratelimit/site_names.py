"""The names of hosts and sites, and which site may cover which: pure functions."""

import re
import shlex
from contextlib import suppress
from ipaddress import IPv4Address

import can_ada

MAX_LENGTH = 300
LONGEST_HOST = 253  # characters of a name in the DNS (RFC 1035)
MOST_OF_HOST = 1_000  # characters of a host as it is written; a longer text is refused unread
NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*", re.ASCII)  # a host whose last label matches is an IPv4 address, in any form
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?", re.ASCII)
_IPV6 = re.compile(r"\[[0-9a-f:.]+\]", re.ASCII | re.IGNORECASE)
_CHARACTER = r"[^\s:/@?#\[\]\x00-\x1f\x7f\ud800-\udfff]"  # what a URL's path can contain, so that each site has a page
_SITE = re.compile(rf"(?P<host>\[(?:{_CHARACTER}|:)+\]|{_CHARACTER}+)(?P<port>:[0-9]{{1,5}})?")
# Characters that UTS 46 maps differently since Unicode 15.1. Browsers follow 15.1, but can_ada's tables are older.
_SINCE_15_1 = str.maketrans({"\N{LATIN CAPITAL LETTER SHARP S}": "\N{LATIN SMALL LETTER SHARP S}"})


class InvalidHost(ValueError):
    """The text is not a host that a URL may lead to; the message says why."""


class InvalidSiteName(ValueError):
    """Not the name of a site; the message shows what a name looks like."""


def host_name(text: str) -> str:
    """Return the one spelling of a host: the one that browsers use if a URL has the text as its host.

    Everything that names a host uses this spelling: requests, sites, dedupe, robots.txt and the address guard. A name
    is mapped according to UTS 46, not transitionally (https://url.spec.whatwg.org/#idna), and loses its final dot. An
    address is in its usual form, an IPv6 address in brackets.

    Raises InvalidHost for what browsers refuse and, unlike them, for a number that hides an IPv4 address (127.1,
    0x7f.1, 2130706433), for escapes, and for a name that the DNS cannot have, except that underscores are allowed.
    """
    if text.startswith("["):
        return _ipv6(text)
    name = _ascii(text).removesuffix(".")
    labels = name.split(".")
    if NUMBER.fullmatch(labels[-1]):
        try:
            return str(IPv4Address(name))
        except ValueError:
            raise InvalidHost(f"{text!r} is neither a name nor an IPv4 address in its usual form") from None
    if len(name) > LONGEST_HOST or not all(map(_LABEL.fullmatch, labels)):
        raise InvalidHost(f"{text!r} is not a host name")
    return name


def canonical(name: str) -> str:
    """Return the one spelling of a site's name: the host as it stands in a URL, and `:port` if the name has one.

    Two spellings of a host must not become two sites. So every name from outside passes through here, and a host is
    spelled as `host_name` spells it. A site of `throttle` need not be a host, and may have any ASCII name.

    Raises InvalidSiteName for an empty text, for one of more than 300 characters, for a URL or a path, because each
    page would become a site, and for a pattern, because it is not the name of a host.
    """
    if "*" in name:
        raise InvalidSiteName(
            f"{name!r} is a pattern, which names no site: name the host above all of them, with --covers-subdomains."
        )
    match = _SITE.fullmatch(name.strip())
    try:
        host = _canonical_host(match["host"]) if match else ""
    except InvalidHost:
        host = ""
    site = host + ((match and match["port"]) or "")
    if not host or len(site) > MAX_LENGTH:
        raise InvalidSiteName(
            f"{name!r} does not name a site: write its host, such as api.example.com or example.com:8080."
        )
    return site


def as_argument(site: str) -> str:
    """Return the name quoted for a shell, which would take brackets for patterns."""
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
        address, percent, zone = host[1:-1].partition("%")  # only a relay's name may have a zone, never that of a host
        return f"{_ipv6(f'[{address}]')[:-1]}{percent}{zone.lower()}]"
    host = host.rstrip(".")
    return host.lower() if host.isascii() else host_name(host)


def _ascii(text: str) -> str:
    """Return the name as it stands in the DNS; if the DNS cannot have it, a text that is not a host name."""
    if len(text) > MOST_OF_HOST:
        return ""
    try:
        return can_ada.idna_encode(text.translate(_SINCE_15_1)).decode()
    except TypeError:  # for a lone surrogate
        return ""


def _ipv6(text: str) -> str:
    if "%" in text:
        raise InvalidHost("the host has an IPv6 zone, which means something on this machine only")
    with suppress(ValueError):
        if _IPV6.fullmatch(text):
            return can_ada.parse(f"http://{text}/").hostname
    raise InvalidHost(f"{text!r} is not an IPv6 address")
