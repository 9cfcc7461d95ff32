"""Targets: which texts are URLs that Weir fetches, and what is sent for each, to which host. Pure.

URLs are read as browsers read them (https://url.spec.whatwg.org/), by can_ada. What is sent is what was given: escapes,
an empty query and a lone `%` stay. Only the host gets its one spelling, dot segments go, and what cannot be sent, or
browsers never send, is escaped. So for all that is accepted, host, port, path and query are a browser's; but for the
final dot of a host, which goes.
"""

import re
from dataclasses import dataclass
from typing import NamedTuple

import can_ada

from weir.conf.texts.networks import HIGHEST_PORT
from weir.ratelimit.site_names import InvalidHost, host_name
from weir.workers.fetches.addresses import AddressRefused, Allowed

MAX_LENGTH = 8_000
DEFAULT_PORTS = {"http": 80, "https": 443}
_UNUSABLE = re.compile(r"[\x00-\x1f\ud800-\udfff]")
# A URL that somebody writes: as RFC 3986 has it. Behind "http:", browsers take any number of slashes and backslashes
# for two; other programs do not. Who has looked with one of those whether the host is a good one must not be misled.
_WRITTEN = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*):(?P<slashes>//)?(?P<authority>[^/?#]*)", re.ASCII | re.IGNORECASE)
# What a site redirects to, as browsers take it.
_LOCATION = re.compile(r"(?:([a-z][a-z0-9+.-]*):)?([/\\]*)([^/\\?#]*)", re.ASCII | re.IGNORECASE)
_BEGINS_AUTHORITY = re.compile(r"[/\\]{2}")
_DIGITS = re.compile(r"[0-9]{1,5}", re.ASCII)  # ASCII, as Python reads other digits, too


class InvalidTarget(ValueError):
    """The text is no URL that Weir fetches; the message says why."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """A URL as it is sent, and its host (with a port that is not the default), by whose name its site is found."""

    url: str
    host: str


class UrlParts(NamedTuple):
    """What the URL of a target consists of."""

    scheme: str
    host: str  # without the brackets of an IPv6 address
    port: int
    authority: str  # for the header Host, and the name of the site: the port only where it is not the default
    path_and_query: str


def parse_target(text: str, allowed: Allowed | None = None, *, base: str = "") -> Target:
    """Return the target that `text` names; raises InvalidTarget with the reason.

    With `base`, the URL of a target, `text` is where that redirects to. With `allowed`, what the URL itself shows to be
    forbidden is refused, too: an address or a port that may not be connected to.

    Only http and https, and no credentials. Fragments are dropped, an empty path is `/`. What hides where a URL leads
    is refused, though browsers accept it: control characters; numbers that some resolvers take for addresses (127.1,
    0x7f.1, 2130706433); and, in a text that is no redirect, anything but `//` behind the scheme, or a backslash in the
    authority.
    """
    if len(text) > MAX_LENGTH:
        raise InvalidTarget(f"the URL is longer than {MAX_LENGTH} characters")
    if found := _UNUSABLE.search(text):
        raise InvalidTarget(f"the URL contains {_named(found[0])}")
    text = text.strip(" ")
    scheme, authority = _redirected(text, base) if base else _written(text)
    host, port = _host_and_port(scheme, authority)
    _check_allowed(allowed, host.strip("[]"), port)
    name = host if port == DEFAULT_PORTS[scheme] else f"{host}:{port}"
    url = f"{scheme}://{name}{_path_and_query(text, base)}"
    if len(url) > MAX_LENGTH:
        raise InvalidTarget(f"the URL is longer than {MAX_LENGTH} characters, as it is sent")
    return Target(url=url, host=name)


def parts_of(url: str) -> UrlParts:
    """Return the parts of a URL that `parse_target` made, now or in an earlier version: nothing is checked again."""
    scheme, _, rest = url.partition("://")
    authority, _, path_and_query = rest.partition("/")
    host, colon, port = authority.rpartition(":")
    if not colon or port.endswith("]"):
        host, port = authority, ""
    return UrlParts(scheme, host.strip("[]"), int(port or DEFAULT_PORTS[scheme]), authority, f"/{path_and_query}")


def _named(unusable: str) -> str:
    """Return what a character is that no URL can have."""
    if unusable < " ":
        return "control characters"
    if "\udc80" <= unusable <= "\udcff":  # in which Python's `surrogateescape` keeps bytes
        return f"the byte 0x{ord(unusable) - 0xDC00:02X}, which is not UTF-8 there"
    return "half of a character (a lone surrogate)"


def _written(text: str) -> tuple[str, str]:
    """Return the scheme and the authority of a URL that stands for itself."""
    found = _WRITTEN.match(text)
    if not found:
        raise InvalidTarget("not a URL: write it whole, such as https://example.com/page")
    scheme = _fetched(found["scheme"])
    if not found["slashes"]:
        raise InvalidTarget(f"the URL has no host: write {scheme}:// before it")
    if "\\" in found["authority"]:
        raise InvalidTarget("the URL has a backslash in its host, which some programs take for a slash")
    return scheme, found["authority"]


def _redirected(location: str, base: str) -> tuple[str, str]:
    """Return the scheme and the authority of what `base` redirects to: its own, where the location names no other."""
    here = parts_of(base)
    named, slashes, authority = next(_LOCATION.finditer(location)).groups("")  # it matches the empty text, too
    scheme = _fetched(named or here.scheme)
    return scheme, here.authority if scheme == here.scheme and not _BEGINS_AUTHORITY.match(slashes) else authority


def _fetched(scheme: str) -> str:
    if scheme.lower() not in DEFAULT_PORTS:
        raise InvalidTarget(f"the scheme {scheme.lower()!r} is not fetched: only http and https are")
    return scheme.lower()


def _host_and_port(scheme: str, authority: str) -> tuple[str, int]:
    if "@" in authority:
        raise InvalidTarget("the URL contains credentials; they would be stored and logged")
    address, bracket, rest = authority.rpartition("]")  # in which colons are no sign of a port
    name, colon, digits = rest.partition(":")
    if not (host := f"{address}{bracket}{name}"):
        raise InvalidTarget("the URL has no host")
    if host == "[":
        raise InvalidTarget(f"{authority!r} is not an IPv6 address")
    port = _port(digits, DEFAULT_PORTS[scheme]) if colon else DEFAULT_PORTS[scheme]
    try:
        return host_name(host), port
    except InvalidHost as error:
        raise InvalidTarget(str(error)) from error


def _port(text: str, default: int) -> int:
    """Return the port; no digits are the default, as nothing is."""
    digits = text.lstrip("0")
    if text and not (_DIGITS.fullmatch(digits) and int(digits) <= HIGHEST_PORT):
        raise InvalidTarget("the port must be between 1 and 65535, in plain digits")
    return int(digits) if text else default


def _path_and_query(text: str, base: str) -> str:
    try:
        url = can_ada.parse(base) + text if base else can_ada.parse(text)
    except ValueError as error:
        raise InvalidTarget("not a URL: browsers cannot read it") from error
    path, question, query = url.href.split("/", 3)[3].partition("#")[0].partition("?")
    return f"/{path.replace('^', '%5E')}{question}{query}"  # the standard escapes ^ in paths since can_ada was made


def _check_allowed(allowed: Allowed | None, host: str, port: int) -> None:
    try:
        if allowed is not None:
            allowed.check_host(host, port)
    except AddressRefused as error:
        raise InvalidTarget(str(error)) from error
