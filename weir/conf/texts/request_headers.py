"""Header fields that a site or a fetch gives its requests: which may be given, and the names of secrets in them. Pure.

A value names a secret by `{secret:NAME}`, or `{secret:NAME|base64}` for its text in Base64, as Basic authentication
wants it. Only the name is stored and shown; weir.conf.secrets has the secret itself.
"""

import base64
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final

MOST_FIELDS: Final = 30
LONGEST_VALUE: Final = 4_096  # characters
MOST_CHARACTERS: Final = 8_192  # of all names and values together: servers accept no longer heads than twice that
_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110, section 5.6.2
_VALUE: Final = re.compile(r"[!-~](?:[\t -~]*[!-~])?")
_SECRET: Final = re.compile(r"\{secret:([A-Za-z][A-Za-z0-9_]{0,99})(\|base64)?\}")
_LIKE_SECRET: Final = re.compile(r"\{\s*secret", re.IGNORECASE)

_CONNECTION: Final = "belongs to the connection, and Weir sets it"
_BODY: Final = "Weir asks for whole bodies, in the encodings that it reads"
_VALIDATOR: Final = "Weir sets it: pass revalidate=True"
REFUSED: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        (
            "connection", "content-length", "expect", "host", "http2-settings", "keep-alive", "proxy-connection", "te",
            "trailer", "transfer-encoding", "upgrade",
        ),
        _CONNECTION,
    ),
    **dict.fromkeys(("accept-encoding", "if-range", "range"), _BODY),
    **dict.fromkeys(("if-match", "if-modified-since", "if-none-match", "if-unmodified-since"), _VALIDATOR),
    "proxy-authorization": "it is for a proxy, and Weir connects to sites themselves",
}  # fmt: skip
SECRET_FIELDS: Final = frozenset({"authorization"})  # a value without a secret's name would be stored as it is


def usable_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the fields as they are stored and sent, in their order. Raises ValueError with a sentence."""
    if len(headers) > MOST_FIELDS:
        raise ValueError(f"headers must be at most {MOST_FIELDS} fields, not {len(headers)}.")
    usable: dict[str, str] = {}
    seen: set[str] = set()
    for name, given in headers.items():
        value = given.strip(" \t") if isinstance(given, str) else given
        _check(name, value)
        if name.lower() in seen:
            raise ValueError(f"headers must have each field once, but {name} is there twice.")
        seen.add(name.lower())
        usable[name] = value
    if sum(len(name) + len(value) for name, value in usable.items()) > MOST_CHARACTERS:
        raise ValueError(f"headers must have at most {MOST_CHARACTERS:,} characters together.")
    return usable


def placeholders(headers: Mapping[str, str]) -> set[str]:
    """Return what stands for secrets in the values."""
    return {found[0] for value in headers.values() for found in _SECRET.finditer(value)}


def with_secrets(value: str, secret: Callable[[str], str]) -> str:
    """Return the value with each secret in its place; `secret` returns a secret by its name, or raises an error."""

    def text(found: re.Match[str]) -> str:
        plain = secret(found[1])
        return base64.b64encode(plain.encode()).decode() if found[2] else plain

    return _SECRET.sub(text, value)


def parse_header(text: str) -> tuple[str, str]:
    """Return the name and the value of a line such as `Accept: application/json`. Raises ValueError."""
    name, colon, value = text.partition(":")
    if not colon:
        raise ValueError(f"must be a header such as 'Accept: application/json', not {text!r}")
    return name.strip(" \t"), value.strip(" \t")


def headers_of(lines: Iterable[str]) -> dict[str, str]:
    """Return the fields of these lines. Raises ValueError, also for a field that is there twice."""
    found: dict[str, str] = {}
    for name, value in map(parse_header, lines):
        if name in found:
            raise ValueError(f"headers must have each field once, but {name} is there twice.")
        found[name] = value
    return found


def written_headers(headers: Mapping[str, str]) -> list[str]:
    """Return the fields as lines, as `parse_header` reads them."""
    return [f"{name}: {value}" for name, value in headers.items()]


def _check(name: object, value: object) -> None:
    if not isinstance(name, str) or not isinstance(value, str):
        raise TypeError(f"headers must map names to values, both texts, but has {name!r}: {value!r}.")
    if not _NAME.fullmatch(name):
        raise ValueError(f"headers must have names of letters, digits and hyphens, not {name!r}.")
    if reason := REFUSED.get(name.lower()):
        raise ValueError(f"headers must not have {name}: {reason}.")
    if len(value) > LONGEST_VALUE or not _VALUE.fullmatch(value):
        raise ValueError(
            f"headers must have values of 1 to {LONGEST_VALUE:,} printable ASCII characters; that of {name} is not one."
        )
    left = _SECRET.sub("", value)
    if _LIKE_SECRET.search(left):
        raise ValueError(f"headers name a secret by {{secret:NAME}} or {{secret:NAME|base64}}; {name} does not.")
    if name.lower() in SECRET_FIELDS and left == value:
        raise ValueError(f"headers must name the secret of {name}, not contain it: write {{secret:NAME}} in its place.")
