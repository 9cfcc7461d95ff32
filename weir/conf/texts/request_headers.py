"""Headers that a site or a fetch gives its requests: which may be given, and the placeholders of secrets in them. Pure.

A placeholder in a value names a secret: `{secret:NAME}` stands for its text, `{secret:NAME|base64}` for its text in
Base64, as Basic authentication needs it (RFC 7617). Rows, pages and logs have placeholders only; weir.conf.secrets has
the secrets.
"""

import base64
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from typing import Final

MOST_HEADERS: Final = 30
LONGEST_VALUE: Final = 4_096  # characters
MOST_CHARACTERS: Final = 8_192  # of all names and values together: most servers accept heads of 16 KiB
ENCODINGS: Final[Mapping[str, Callable[[str], str]]] = {
    "": str,
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
}
_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110, section 5.6.2
_VALUE: Final = re.compile(r"[!-~](?:[\t -~]*[!-~])?")
_PLACEHOLDER: Final = re.compile(
    rf"\{{secret:([A-Za-z]\w{{0,99}})(?:\|({'|'.join(filter(None, ENCODINGS))}))?\}}", re.ASCII
)
_LIKE_PLACEHOLDER: Final = re.compile(r"\{\s*secret", re.IGNORECASE)
_SHAPES: Final = " or ".join(f"{{secret:NAME{f'|{name}' if name else ''}}}" for name in ENCODINGS)

_CONNECTION: Final = "belongs to the connection, and Weir sets it"
_CODED: Final = "Weir asks for the encodings that it reads"
_RANGE: Final = "it belongs to one fetch: pass it in the headers of request_fetch"
_VALIDATOR: Final = "Weir sets it: pass revalidate=True"
WHY_REFUSED: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        (
            "connection", "content-length", "expect", "host", "http2-settings", "keep-alive", "proxy-connection", "te",
            "trailer", "transfer-encoding", "upgrade",
        ),
        _CONNECTION,
    ),
    "accept-encoding": _CODED,
    **dict.fromkeys(("if-range", "range"), _RANGE),
    **dict.fromkeys(("if-match", "if-modified-since", "if-none-match", "if-unmodified-since"), _VALIDATOR),
    "proxy-authorization": "it is for a proxy, and Weir connects to sites themselves",
}  # fmt: skip
OF_ONE_FETCH: Final = frozenset({"if-range", "range"})  # a fetch may have these, a site may not
NEED_SECRET: Final = frozenset({"authorization"})  # a value without a placeholder would be stored as it is


def usable_headers(
    headers: Mapping[str, str] | Iterable[tuple[str, str]], *, also: Container[str] = ()
) -> dict[str, str]:
    """Return the headers as they are stored, without blanks around values. Their order is not kept.

    `also` has names that are accepted here, although they are refused elsewhere. Raises ValueError with a sentence that
    quotes no value, and TypeError for a name or a value that is no text.
    """
    pairs = list(_pairs(headers))
    if len(pairs) > MOST_HEADERS:
        raise ValueError(f"headers must be at most {MOST_HEADERS}, not {len(pairs)}.")
    usable: dict[str, str] = {}
    for name, given in pairs:
        value = given.strip(" \t")
        _check(name, value, also)
        if name.lower() in {each.lower() for each in usable}:
            raise ValueError(f"headers must have each header once, but {name} is there twice.")
        usable[name] = value
    if sum(len(name) + len(value) for name, value in usable.items()) > MOST_CHARACTERS:
        raise ValueError(f"headers must have at most {MOST_CHARACTERS:,} characters together.")
    return usable


def secrets_of(headers: Mapping[str, str]) -> set[str]:
    """Return the names of the secrets for which there are placeholders in the values."""
    return {found[1] for value in headers.values() for found in _PLACEHOLDER.finditer(value)}


def with_secrets(value: str, secret: Callable[[str], str]) -> str:
    """Return the value with the secrets in place of their placeholders.

    `secret` returns a secret by its name, or raises an error.
    """
    return _PLACEHOLDER.sub(lambda found: ENCODINGS[found[2] or ""](secret(found[1])), value)


def parse_header(line: str) -> tuple[str, str]:
    """Return the name and the value of a line such as `Accept: application/json`. Raises ValueError."""
    name, colon, value = line.partition(":")
    if not colon:
        raise ValueError("must be a header such as 'Accept: application/json', with a colon")
    return name.strip(" \t"), value.strip(" \t")


def written_headers(headers: Mapping[str, str]) -> list[str]:
    """Return the headers as lines, as `parse_header` reads them."""
    return [f"{name}: {value}" for name, value in headers.items()]


def _pairs(headers: object) -> Iterator[tuple[str, str]]:
    """Yield the pairs of names and values. Raises TypeError for anything else."""
    given = headers.items() if isinstance(headers, Mapping) else headers
    for pair in given if isinstance(given, Iterable) else (None,):
        match pair:
            case (str(name), str(value)):
                yield name, value
            case _:
                raise TypeError("headers must map names to values, and both must be texts.")


def _check(name: str, value: str, also: Container[str]) -> None:
    if not _NAME.fullmatch(name):
        raise ValueError("headers must have names of letters, digits and hyphens.")
    if (reason := WHY_REFUSED.get(name.lower())) and name.lower() not in also:
        raise ValueError(f"headers must not have {name}: {reason}.")
    if len(value) > LONGEST_VALUE or not _VALUE.fullmatch(value):
        raise ValueError(
            f"headers must have values of 1 to {LONGEST_VALUE:,} printable ASCII characters; that of {name} is not one."
        )
    rest = _PLACEHOLDER.sub("", value)
    if _LIKE_PLACEHOLDER.search(rest):
        raise ValueError(f"headers name a secret by {_SHAPES}; {name} does not.")
    if name.lower() in NEED_SECRET and rest == value:
        raise ValueError(f"headers must name the secret of {name}, not contain it: write {{secret:NAME}} in its place.")
