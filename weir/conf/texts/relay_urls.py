"""The URLs of relays: what a URL names, or what is wrong with it. Pure functions, which weir.conf calls, too.

A project may put a name of its own before a URL, so that two accounts at one host can be told apart:
`bulk=smtp://HOST:25`.

No message quotes any part of a URL, because a URL that cannot be parsed may have a password anywhere.
"""

import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from urllib.parse import SplitResult, unquote_to_bytes, urlsplit

from pydantic import SecretStr

EXAMPLES = (
    "smtp://HOST:25, smtp+starttls://USER:PASSWORD@HOST:587, smtps://USER:PASSWORD@HOST:465, "
    "resend://KEY@api.resend.com or django://dotted.path.EmailBackend"
)
PORTS = {"smtp": 25, "smtp+starttls": 587, "smtps": 465, "resend": 443, "resend+http": 80}  # if a URL names none
SMTP, RESEND, DJANGO = "smtp", "resend", "django"

_ESCAPE = (
    "in a user name, a password or a key, write / # ? @ : [ ] % and a comma as %2F %23 %3F %40 %3A %5B %5D %25 %2C"
)
_OWN_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,29}")
_BETWEEN = re.compile(r"[\s,]+")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_PATH = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)+")
_HOST = re.compile(r"[^\s/@?#\[\]:%]+")
_LAST_PORT = 65_535


class InvalidRelay(ValueError):
    """A URL does not name a relay; the message is a clause that says why, without quoting the URL."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RelayURL:
    """The parts of a relay's URL."""

    kind: str  # SMTP, RESEND or DJANGO
    name: str  # the relay's name, which may be shown
    host: str = ""
    port: int = 0
    starts_tls: bool = False  # whether TLS begins with STARTTLS
    is_tls: bool = False  # whether TLS begins with the first byte
    user: str = ""
    secret: SecretStr = field(default=SecretStr(""), repr=False)  # the password, or the key
    path: str = ""  # the dotted path of a Django backend's class


def split(text: str) -> list[str]:
    """Return the URLs in a text; commas or blanks separate them."""
    return [url for url in _BETWEEN.split(text) if url]


def fault(urls: Iterable[str]) -> str | None:
    """Return a sentence about the first malformed or repeated URL, and the remedy; None if all URLs are valid."""
    names: set[str] = set()  # the names for use in routes: the project's own name alone, if there is one
    for number, url in enumerate(urls, 1):
        try:
            found = parse(url)
        except InvalidRelay as error:
            return f"Relay {number} of WEIR_MAIL_RELAYS is malformed ({error}): write {EXAMPLES}."
        own = own_name(found.name)
        if own in names:
            return (
                f"Relay {number} of WEIR_MAIL_RELAYS, {own}, is named before: remove one of the two, or, if they "
                "are two accounts, give each a name: NAME=URL."
            )
        names.add(own)
    return None


def parse(url: str) -> RelayURL:
    """Return the parts of the URL. Raises InvalidRelay."""
    own, url = _without_own_name(url.strip())
    if own is None:
        return _parse(url)
    if not _OWN_NAME.fullmatch(own):
        raise InvalidRelay("before its = there must be a name of up to 30 letters, digits, _ and -, such as bulk")
    found = _parse(url)
    return replace(found, name=f"{own}={found.name}")


def own_name(name: str) -> str:
    """Return the project's own part of a relay's name, or the whole name if there is no such part."""
    return name.partition("=")[0]


def _without_own_name(url: str) -> tuple[str | None, str]:
    """Return the project's own name before the URL, or None, and the URL. A = within a password does not count."""
    before, separator, rest = url.partition("://")
    own, equals, scheme = before.partition("=")
    return (own, scheme + separator + rest) if equals else (None, url)


def _parse(url: str) -> RelayURL:
    scheme, separator, rest = url.partition("://")
    if not separator or scheme not in {*PORTS, DJANGO}:
        raise InvalidRelay(f"it must begin with {', '.join(f'{name}://' for name in (*PORTS, DJANGO))}")
    if scheme == DJANGO:
        if not _PATH.fullmatch(rest):
            raise InvalidRelay("behind django:// there must be the dotted path of a mail backend's class")
        return RelayURL(kind=DJANGO, name=f"django:{rest}", path=rest)
    if _BAD_ESCAPE.search(rest):
        raise InvalidRelay(f"a % stands for itself in it; {_ESCAPE}")
    parts, host, port = _place(url)
    user, secret = _login(parts)
    return (
        _resend(scheme, host, port, user, secret)
        if scheme.startswith(RESEND)
        else _smtp(scheme, host, port, user, secret)
    )


def secrets(text: str) -> list[str]:
    """Return every spelling of the passwords and keys in a text of URLs, however malformed they are."""
    found = set()
    for url in split(text):
        scheme, _, rest = _without_own_name(url)[1].partition("://")
        login = rest.rpartition("@")[0]
        user, colon, password = login.partition(":")
        raw = login if scheme.startswith(RESEND) else password if colon else user
        found.add(raw)
        with suppress(UnicodeDecodeError):
            found.add(unquote_to_bytes(raw).decode())
    return sorted(found - {""})


def _place(url: str) -> tuple[SplitResult, str, int]:
    """Return the URL's parts, its host in small letters, and its port. Raises InvalidRelay."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
        is_host = bool(_HOST.fullmatch(host)) or (":" in host and bool(ip_address(host)))
    except ValueError:
        is_host = False
    if not is_host or port == 0:
        raise InvalidRelay(f"its host or port cannot be read; {_ESCAPE}")
    if parts.path.strip("/") or parts.query or parts.fragment:
        raise InvalidRelay(f"nothing may follow its host and port; {_ESCAPE}")
    return parts, host, port or PORTS[parts.scheme]


def _login(parts: SplitResult) -> tuple[str, str]:
    """Return the user and the password, decoded. Raises InvalidRelay."""
    try:
        user, password = (unquote_to_bytes(text or "").decode() for text in (parts.username, parts.password))
    except UnicodeDecodeError:
        raise InvalidRelay("what % stands for in it is not UTF-8") from None
    if not (user + password).isprintable():
        raise InvalidRelay("its user name, password or key has a control character")
    return user, password


def _smtp(scheme: str, host: str, port: int, user: str, password: str) -> RelayURL:
    if bool(user) != bool(password):
        raise InvalidRelay("a user name needs a password behind a colon, and a password a user name")
    return RelayURL(
        kind=SMTP,
        name=f"{bracketed(host)}:{port}",
        host=host,
        port=port,
        starts_tls=scheme == "smtp+starttls",
        is_tls=scheme == "smtps",
        user=user,
        secret=SecretStr(password),
    )


def _resend(scheme: str, host: str, port: int, key: str, password: str) -> RelayURL:
    if not key or password or not key.isascii() or " " in key:
        raise InvalidRelay("before its @ there must be the key of the API, and nothing else")
    if scheme == "resend+http" and not _is_loopback(host):
        raise InvalidRelay("without TLS it may name 127.0.0.1, ::1 or localhost only: others would read the key")
    place = bracketed(host) if port == PORTS[RESEND] and scheme == RESEND else f"{bracketed(host)}:{port}"
    return RelayURL(
        kind=RESEND, name=f"resend:{place}", host=host, port=port, is_tls=scheme == RESEND, secret=SecretStr(key)
    )


def bracketed(host: str) -> str:
    """Return the host in the form in which it is written before a port: an IPv6 address has brackets."""
    return f"[{host}]" if ":" in host else host


def _is_loopback(host: str) -> bool:
    with suppress(ValueError):
        return ip_address(host).is_loopback
    return host == "localhost"
