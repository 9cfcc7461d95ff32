"""What a log line may hold: of a URL no more than its scheme, host and port; no password; of a value 1,000 characters.

A log is read by more people than a fetch, and kept for longer. A person who has the path, query or user information of
a URL may be able to sign in with it. So these are masked in the text of every value, however they came there: in errors
of libraries, in tracebacks, in messages of other loggers, in the lines about requests. Passwords that a server has
repeated are masked, too.
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
READ = 10 * MOST  # of a value: the rest is cut off unread
MASK = "***"
TRACEBACKS = ("exception", "stack")
WRITTEN = ("timestamp", "level", "logger")  # by the processors before this one: they contain no password
DRIVERS = {"psycopg"}  # the loggers that report, in a sentence of few words, what a server said

Hide = Callable[[str], str]

# What follows the scheme of a URL, up to a blank: it may contain every other character. Each part excludes the
# character that ends it, so that nothing is read twice.
_URL = re.compile(r"://(?:[^\s/?#\\]*@)?(\[[^\s\]/@]*\]|[^\s/?#\\:@\[]*)((?::[0-9]{1,5}(?![0-9]))?)(\S*)", re.ASCII)
_ESCAPED_URL = re.compile(r"(%3a%2f%2f)\S*", re.ASCII | re.IGNORECASE)  # within another one
_NO_SCHEME = re.compile(r"(?<![:/])//[^\s/?#\\]*@\S*", re.ASCII)
# The query of a path, or a query by itself. A question mark that ends a sentence begins no query.
_QUERY = re.compile(r"""(?:(?<=[^\s(\[{"'])\?(?=[^\s?!.,;:)\]}'"*])|\?(?=[\w%.~-]{1,100}=))\S+""", re.ASCII)
_PERSON = re.compile(r"[^\s/@]*(?:@|%40)[^\s/]*", re.IGNORECASE)  # in the path of a request
_ROW = re.compile(r"(Failing row contains \().*")  # PostgreSQL shows the values of the row


def mask(
    _logger: object, _method: str, event: structlog.typing.EventDict, *, passwords: Redactor = NOTHING
) -> structlog.typing.EventDict:
    """Mask and cut all values of an event: the last processor before the one that writes the line."""
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
    """Return the text, cut to MOST characters, with a mask for what URLs may hold, and for what `hide` masks."""
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


def _clean(value: Any, hide: Hide, depth: int = 0) -> Any:  # noqa: ANN401  as structlog has it
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


def _short(value: Any) -> Any:  # noqa: ANN401  as structlog has it
    return value if len(text := str(value)) <= MOST else _cut(text)


def _traceback(text: str, hide: Hide) -> str:
    """Return a traceback whose lines are masked and cut; of a long one its beginning and its end."""
    if len(text) > MOST_OF_TRACEBACK:
        half = MOST_OF_TRACEBACK // 2
        text = f"{text[:half]}\n…\n{text[-half:].partition(chr(10))[2]}"
    return "\n".join(masked(line, hide) for line in text.split("\n"))
