"""Targets: which texts are URLs that Weir fetches, which URL is sent for each text, and to which host. Pure.

can_ada reads URLs as browsers do (https://url.spec.whatwg.org/). A URL is sent as it was given: escapes, an empty query
and a lone `%` stay. Only the host gets its one spelling, dot segments are removed, and characters that cannot be sent,
or that browsers never send, are escaped. So each accepted URL has the host, port, path and query that a browser would
use, except that the final dot of a host is removed.
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
# A URL that a person or a program writes, in the form of RFC 3986. After "http:", browsers read any number of slashes
# and backslashes as two; other programs do not. A caller that checked the host with such a program must not be misled.
_WRITTEN = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*):(?P<slashes>//)?(?P<authority>[^/?#]*)", re.ASCII | re.IGNORECASE)
# The location that a site redirects to, as browsers read it.
_LOCATION = re.compile(r"(?:([a-z][a-z0-9+.-]*):)?([/\\]*)([^/\\?#]*)", re.ASCII | re.IGNORECASE)
_BEGINS_AUTHORITY = re.compile(r"[/\\]{2}")
_DIGITS = re.compile(r"[0-9]{1,5}", re.ASCII)  # only ASCII, because Python reads other digits, too


class InvalidTarget(ValueError):
    """The text is not a URL that Weir fetches; the message says why."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """A URL as it is sent, and its host (with a port that is not the default), which determines its site."""

    url: str
    host: str


class UrlParts(NamedTuple):
    """What the URL of a target consists of."""

    scheme: str
    host: str  # without the brackets of an IPv6 address
    port: int
    authority: str  # for the header Host, and the name of the site: the port only if it is not the default
    path_and_query: str


def parse_target(text: str, allowed: Allowed | None = None, *, base: str = "") -> Target:
    """Return the target that `text` names; raises InvalidTarget with the reason.

    With `base`, the URL of a target, `text` is the location that it redirects to. With `allowed`, a URL that itself
    names a forbidden address or port is refused, too.

    Only http and https are accepted, without credentials. Fragments are dropped, an empty path becomes `/`. Texts that
    hide where a URL leads are refused, although browsers accept them: control characters; numbers that some resolvers
    read as addresses (127.1, 0x7f.1, 2130706433); and, in a text that is not a redirect, anything but `//` after the
    scheme, or a backslash in the authority.
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


def keeps_origin(url: str, later: str) -> bool:
    """Return whether a redirect from one target's URL to the other stays at its origin (RFC 6454).

    https at the host of http, both at their default ports, counts as staying.
    """
    here, there = parts_of(url), parts_of(later)
    is_secured = (here.scheme, here.port, there.scheme, there.port) == ("http", 80, "https", 443)
    return here.host == there.host and (is_secured or (here.scheme, here.port) == (there.scheme, there.port))


def _named(unusable: str) -> str:
    """Return a description of a character that no URL can have."""
    if unusable < " ":
        return "control characters"
    if "\udc80" <= unusable <= "\udcff":  # Python's `surrogateescape` keeps bytes in these
        return f"the byte 0x{ord(unusable) - 0xDC00:02X}, which is not UTF-8 there"
    return "half of a character (a lone surrogate)"


def _written(text: str) -> tuple[str, str]:
    """Return the scheme and the authority of a URL that is not a redirect."""
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
    """Return the scheme and the authority that `base` redirects to: its own, unless the location names others."""
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
    address, bracket, rest = authority.rpartition("]")  # colons inside the brackets do not begin a port
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
    """Return the port; the default if there are no digits after the colon."""
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
