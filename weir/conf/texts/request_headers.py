"""Headers that a site or a fetch gives its requests: which may be given, and the placeholders of secrets in them. Pure.

A placeholder in a value names a secret: `{secret:NAME}` stands for its text, `{secret:NAME|base64}` for its text in
Base64, as Basic authentication needs it (RFC 7617). `{token:NAME}` stands for an access token of the OAuth client that
the secret describes. Rows, pages and logs have placeholders only; weir.conf.secrets has the secrets.
"""

import base64
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

MOST_HEADERS: Final = 30
LONGEST_VALUE: Final = 4_096  # characters
MOST_CHARACTERS: Final = 8_192  # of all names and values together: most servers accept heads of 16 KiB
ENCODINGS: Final[Mapping[str, Callable[[str], str]]] = {
    "": str,
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
}
_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110, section 5.6.2
_VALUE: Final = re.compile(r"[!-~](?:[\t -~]*[!-~])?")
SECRET: Final = "secret"  # noqa: S105  the word in a placeholder
TOKEN: Final = "token"  # noqa: S105  the same
BEGINS: Final[Mapping[str, str]] = {kind: f"{{{kind}:" for kind in (SECRET, TOKEN)}  # of placeholders
_PLACEHOLDER: Final = re.compile(
    rf"\{{({SECRET}|{TOKEN}):([A-Za-z]\w{{0,99}})(?:\|({'|'.join(filter(None, ENCODINGS))}))?\}}", re.ASCII
)
_LIKE_PLACEHOLDER: Final = re.compile(rf"\{{\s*({SECRET}|{TOKEN}\s*:)", re.IGNORECASE)
_SHAPES: Final = f"{{{SECRET}:NAME}} or {{{SECRET}:NAME|base64}}, and an access token by {{{TOKEN}:NAME}}"

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
    "proxy-authorization": "it is for a proxy, which the network of a site names",
}  # fmt: skip
OF_ONE_FETCH: Final = frozenset({"if-range", "range"})  # a fetch may have these, a site may not
NEED_SECRET: Final = frozenset({"authorization"})  # a value without a placeholder would be stored as it is


class Named(NamedTuple):
    """What a placeholder names: the text of a secret, or an access token of the client that it describes."""

    kind: str  # SECRET or TOKEN
    name: str

    def __str__(self) -> str:
        return f"{{{self.kind}:{self.name}}}"

    def written(self, encoding: str) -> str:
        """Return the placeholder of the text in this encoding."""
        return f"{{{self.kind}:{self.name}{f'|{encoding}' if encoding else ''}}}"


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


def named_in(headers: Mapping[str, str]) -> set[Named]:
    """Return what the placeholders in the values name."""
    return {Named(found[1], found[2]) for value in headers.values() for found in _PLACEHOLDER.finditer(value)}


def is_like_placeholder(value: str) -> bool:
    """Return whether the value has something that looks like a placeholder, and is none."""
    return bool(_LIKE_PLACEHOLDER.search(_PLACEHOLDER.sub("", value)))


def with_texts(value: str, texts: Mapping[Named, str]) -> str:
    """Return the value with these texts in place of their placeholders."""
    return _PLACEHOLDER.sub(lambda found: ENCODINGS[found[3] or ""](texts[Named(found[1], found[2])]), value)


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
    if is_like_placeholder(value):
        raise ValueError(f"headers name a secret by {_SHAPES}; {name} does not.")
    if name.lower() in NEED_SECRET and rest == value:
        raise ValueError(f"headers must name the secret of {name}, not contain it: write {{secret:NAME}} in its place.")
