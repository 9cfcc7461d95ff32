"""Parameters that a site adds to the query of its requests, such as the key of an API. Pure.

The values have placeholders of secrets, as those of headers (request_headers.py). URLs never have any: a URL may come
from outside.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final
from urllib.parse import quote, unquote_plus

from weir.conf.texts.request_headers import SECRET, Named, is_like_placeholder, named_in, with_texts

MOST_PARAMETERS: Final = 10
LONGEST_QUERY: Final = 2_048  # characters of all names and values together


def usable_query(query: Mapping[str, str] | Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the parameters as they are stored.

    Raises ValueError with a sentence that quotes no value, and TypeError for a name or a value that is no text.
    """
    usable: dict[str, str] = {}
    for name, value in query.items() if isinstance(query, Mapping) else query:
        if not isinstance(name, str) or not isinstance(value, str):
            raise TypeError("query must map names to values, and both must be texts.")
        if not name or not name.isprintable() or not value.isprintable():
            raise ValueError("query must have names and values of printable characters.")
        if name in usable:
            raise ValueError(f"query must have each parameter once, but {name} is there twice.")
        if is_like_placeholder(value) or any(named.kind != SECRET for named in named_in({name: value})):
            raise ValueError(f"query names a secret by {{secret:NAME}} or {{secret:NAME|base64}}; {name} does not.")
        usable[name] = value
    if len(usable) > MOST_PARAMETERS or sum(map(len, [*usable, *usable.values()])) > LONGEST_QUERY:
        raise ValueError(f"query must have at most {MOST_PARAMETERS} parameters, of {LONGEST_QUERY:,} characters.")
    return usable


def parse_parameter(text: str) -> tuple[str, str]:
    """Return the name and the value of a text such as `key={secret:NAME}`. Raises ValueError."""
    name, equals, value = text.strip().partition("=")
    if not equals:
        raise ValueError("must be a parameter such as 'key={secret:NAME}', with an equals sign")
    return name, value


def written_query(query: Mapping[str, str]) -> list[str]:
    """Return the parameters as texts, as `parse_parameter` reads them."""
    return [f"{name}={value}" for name, value in query.items()]


def with_query(target: str, query: Mapping[str, str], texts: Mapping[Named, str]) -> str:
    """Return the target of a request with these parameters, and their secrets, instead of others of the same names."""
    own = [f"{quote(name, safe='')}={quote(with_texts(value, texts), safe='')}" for name, value in query.items()]
    path, _, given = without(target, query).partition("?")
    return f"{path}?{'&'.join([*filter(None, [given]), *own])}" if own else target


def without(url: str, names: Collection[str]) -> str:
    """Return the URL, or the target, without its parameters of these names."""
    before, mark, fragment = url.partition("#")
    path, asks, given = before.partition("?")
    kept = [piece for piece in given.split("&") if unquote_plus(piece.partition("=")[0]) not in names]
    return f"{path}{asks if any(kept) else ''}{'&'.join(kept)}{mark}{fragment}" if asks else url
