"""Targets: which texts are URLs that Weir fetches, in one normal form, and which host each names. Pure."""

import re
from dataclasses import dataclass
from ipaddress import ip_address

from yarl import URL

from ratelimit import site_names
from workers.fetches.addresses import AddressRefused, Allowed

MAX_LENGTH = 8_000
DEFAULT_PORTS = {"http": 80, "https": 443}
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?", re.ASCII)
_UNUSABLE = re.compile(r"[\x00-\x1f\ud800-\udfff]")  # control characters, lone surrogates
_PORT = re.compile(r"(\[[^]]*\]|[^:]*)(:[0-9]*)?", re.ASCII)  # behind a host; ASCII, as Python reads other digits, too


class InvalidTarget(ValueError):
    """The text is no URL that Weir fetches; the message says why."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """A URL in the one form in which it is sent, and its host, by whose name its site is found."""

    url: str
    host: str


def parse_target(text: str, allowed: Allowed | None = None) -> Target:
    """Return the target that `text` names; raises InvalidTarget with the reason.

    With `allowed`, also where the URL shows that it may not be connected to: an address or a port that is forbidden.

    Only http and https, no credentials, a host that is a name or a plain IP address. Fragments are dropped, an empty
    path is `/`. Numbers that some resolvers take for addresses (127.1, 0x7f.1, 2130706433) are refused: they serve to
    hide an address, and hardly anything else.
    """
    if len(text) > MAX_LENGTH:
        raise InvalidTarget(f"the URL is longer than {MAX_LENGTH} characters")
    if _UNUSABLE.search(text):
        raise InvalidTarget("the URL contains control characters")
    text = text.strip()
    url, scheme, host, port = _parsed(text)
    authority = re.split("[/?#]", text.partition("//")[2], maxsplit=1)[0]
    if not url.absolute and not scheme:
        raise InvalidTarget("not a URL: write it whole, such as https://example.com/page")
    if scheme not in DEFAULT_PORTS:
        raise InvalidTarget(f"the scheme {scheme!r} is not fetched: only http and https are")
    if "@" in authority:
        raise InvalidTarget("the URL contains credentials; they would be stored and logged")
    if not host:
        raise InvalidTarget("the URL has no host")
    if not port or not _PORT.fullmatch(authority):
        raise InvalidTarget("the port must be between 1 and 65535, in plain digits")
    if "[" in authority and ":" not in host:
        raise InvalidTarget(f"not a URL: [{host}] is not an IPv6 address")
    host = _checked_host(host.lower().removesuffix("."))
    _check_allowed(allowed, host, port)
    name = f"[{host}]" if ":" in host else host
    if port != DEFAULT_PORTS[scheme]:
        name += f":{port}"
    url = url.with_host(host)
    return Target(url=f"{url.origin()}{url.raw_path_qs}", host=site_names.canonical(name))


def _check_allowed(allowed: Allowed | None, host: str, port: int) -> None:
    try:
        if allowed is not None:
            allowed.check_host(host, port)
    except AddressRefused as error:
        raise InvalidTarget(str(error)) from error


def _parsed(text: str) -> tuple[URL, str, str | None, int | None]:
    try:
        url = URL(text)
        # `host` is `raw_host` decoded. It is read because it raises for a label that encodes no name, as browsers do.
        return url, url.scheme.lower(), url.host and url.raw_host, url.port
    except ValueError as error:
        raise InvalidTarget(f"not a URL: {error}") from error
    except IndexError as error:  # yarl's, for http://[]@
        raise InvalidTarget("not a URL: its host cannot be read") from error


def _checked_host(host: str) -> str:
    if ":" in host:
        if "%" in host:
            raise InvalidTarget("the host has an IPv6 zone, which means something on this machine only")
        try:
            return ip_address(host).compressed
        except ValueError as error:
            raise InvalidTarget(f"{host!r} is not an IPv6 address") from error
    labels = host.split(".")
    if site_names.NUMBER.fullmatch(labels[-1]):
        try:
            return str(ip_address(host))
        except ValueError as error:
            raise InvalidTarget(f"{host!r} is neither a name nor an IPv4 address in its usual form") from error
    if len(host) > 253 or not all(_LABEL.fullmatch(label) for label in labels):  # noqa: PLR2004  RFC 1035's limit
        raise InvalidTarget(f"{host!r} is not a host name")
    return host
