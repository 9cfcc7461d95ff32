"""Limits what a log line contains: of a URL the scheme, host and port; of a value 1,000 characters; no password.

More people read a log than a fetch, and a log is kept for longer. A person who knows the path, query or user
information of a URL may be able to sign in with it. So these parts are masked in the text of every value, wherever the
text comes from: an error of a library, a traceback, a message of another logger, a line about a request. Passwords that
a server has repeated are masked, too.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import structlog

from weir.logs.redacting import NOTHING, Redactor

MOST = 1_000  # characters of a value, and of a line of a traceback
MOST_OF_TRACEBACK = 16_000
MOST_ITEMS = 50  # of a list
DEEPEST = 4  # lists within lists
READ = 10 * MOST  # characters of a value that are searched for URLs; the rest is cut off unread
MASK = "***"
TRACEBACKS = ("exception", "stack")
WRITTEN = ("timestamp", "level", "logger")  # values that the processors before this one write: without a password
DRIVERS = {"psycopg"}  # the loggers that report, in a short sentence, what a server said

Hide = Callable[[str], str]

# A URL from the end of its scheme to the next blank: a URL may contain every other character. Each part of the pattern
# excludes the character that ends the part, so that no character is read twice.
_URL = re.compile(r"://(?:[^\s/?#\\]*@)?(\[[^\s\]/@]*\]|[^\s/?#\\:@\[]*)((?::[0-9]{1,5}(?![0-9]))?)(\S*)", re.ASCII)
_ESCAPED_URL = re.compile(r"(%3a%2f%2f)\S*", re.ASCII | re.IGNORECASE)  # a URL within a URL
_NO_SCHEME = re.compile(r"(?<![:/])//[^\s/?#\\]*@\S*", re.ASCII)
# The query of a path, or a query by itself. A question mark that ends a sentence begins no query.
_QUERY = re.compile(r"""(?:(?<=[^\s(\[{"'])\?(?=[^\s?!.,;:)\]}'"*])|\?(?=[\w%.~-]{1,100}=))\S+""", re.ASCII)
_PERSON = re.compile(r"[^\s/@]*(?:@|%40)[^\s/]*", re.IGNORECASE)  # an e-mail address in the path of a request
_ROW = re.compile(r"(Failing row contains \().*")  # PostgreSQL shows the values of the row


def mask(
    _logger: object, _method: str, event: structlog.typing.EventDict, *, passwords: Redactor = NOTHING
) -> structlog.typing.EventDict:
    """Mask and cut all values of an event. To be structlog's last processor before the one that writes the line."""
    is_drivers = str(event.get("logger", "")).partition(".")[0] in DRIVERS
    hide = passwords.in_sentence if is_drivers else passwords.in_any_text
    for name, value in event.items():
        if name in TRACEBACKS and isinstance(value, str):
            event[name] = _traceback(value, hide)
        elif name == "request" and isinstance(value, str):
            event[name] = _PERSON.sub(MASK, masked(value, hide))
        else:
            event[name] = _clean(value, str if name in WRITTEN else hide)
    return event


def masked(text: str, hide: Hide = str) -> str:
    """Return the text, cut to MOST characters; the secret parts of URLs, and what `hide` finds, are masked."""
    return _cut(_masked(hide(text[:READ])))


def _masked(text: str) -> str:
    if "://" in text:
        text = _URL.sub(_host_of, text)
    if "%" in text:
        text = _ESCAPED_URL.sub(rf"\1{MASK}", text)
    if "//" in text:
        text = _NO_SCHEME.sub(f"//{MASK}", text)
    if "?" in text:
        text = _QUERY.sub(f"?{MASK}", text)
    return _ROW.sub(rf"\1{MASK}", text) if "Failing row" in text else text


def _host_of(url: re.Match[str]) -> str:
    host, port, rest = url.groups()
    return f"://{host}{port}{rest if rest in ('', '/', ':') else f'/{MASK}'}"


def _cut(text: str) -> str:
    return text if len(text) <= MOST else f"{text[: MOST - 1]}…"


def _clean(value: Any, hide: Hide, depth: int = 0) -> Any:  # noqa: ANN401  structlog's values have any type
    match value:
        case None | bool() | int() | float():
            return value
        case str():
            return masked(value, hide)
        case Mapping() if depth < DEEPEST:
            items = list(value.items())[:MOST_ITEMS]
            return _short({masked(str(key), hide): _clean(item, hide, depth + 1) for key, item in items})
        case Sequence() | AbstractSet() if depth < DEEPEST and not isinstance(value, (bytes, bytearray, memoryview)):
            return _short([_clean(item, hide, depth + 1) for item in list(value)[:MOST_ITEMS]])
        case _:
            return masked(repr(value), hide)


def _short(value: Any) -> Any:  # noqa: ANN401  as above
    return value if len(text := str(value)) <= MOST else _cut(text)


def _traceback(text: str, hide: Hide) -> str:
    """Return a traceback whose lines are masked and cut. A long traceback keeps its beginning and its end only."""
    if len(text) > MOST_OF_TRACEBACK:
        half = MOST_OF_TRACEBACK // 2
        text = f"{text[:half]}\n…\n{text[-half:].partition(chr(10))[2]}"
    return "\n".join(masked(line, hide) for line in text.split("\n"))
