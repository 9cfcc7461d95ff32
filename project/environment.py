"""Environment variables, read as they are written: an empty one is an unset one, and what cannot be read is refused.

A refusal is Django's ImproperlyConfigured, in one sentence that names the variable, what it must be, and what it is;
of a URL nothing is quoted, as it may hold a password.
"""

import math
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from urllib.parse import SplitResult, parse_qs, urlsplit

from django.core.exceptions import ImproperlyConfigured

from ratelimit.rates import parse_duration

TRUE = {"true", "yes", "on", "1"}
FALSE = {"false", "no", "off", "0"}
EXAMPLES = {
    "DATABASE_URL": "postgresql://USER:PASSWORD@HOST:5432/NAME",
    "REDIS_URL": "redis://:PASSWORD@HOST:6379/0",
    "CELERY_BROKER_URL": "redis://:PASSWORD@HOST:6379/0",
}
SCHEMES = {
    "DATABASE_URL": {"postgres", "postgresql", "psql", "pgsql"},
    "REDIS_URL": {"redis", "rediss", "unix"},
}
REDIS_SCHEMES = {"redis", "rediss"}

_WHOLE_NUMBER = re.compile(r"[0-9]{1,18}", re.ASCII)


def string(name: str, *, default: str = "") -> str:
    """Return the variable's text, unless it is blank."""
    text = os.environ.get(name, "")
    return text if text.strip() else default


def strings(name: str, *, default: list[str]) -> list[str]:
    """Return what stands between the commas."""
    return [part.strip() for part in string(name).split(",") if part.strip()] or default


def choice(name: str, *, among: Sequence[str], default: str) -> str:
    """Return the one of these that is written there, in capitals or not."""
    text = string(name, default=default).strip()
    if text.upper() in among:
        return text.upper()
    raise _refusal(name, f"{', '.join(among[:-1])} or {among[-1]}", text)


def boolean(name: str, *, default: bool) -> bool:
    """Return true for true, yes, on and 1, false for false, no, off and 0."""
    text = string(name, default=str(default)).strip()
    if text.lower() in TRUE | FALSE:
        return text.lower() in TRUE
    raise _refusal(name, "true or false", text)


def integer(name: str, *, default: int) -> int:
    """Return a whole number that is not negative."""
    text = string(name, default=str(default)).strip()
    if _WHOLE_NUMBER.fullmatch(text):
        return int(text)
    raise _refusal(name, f"a whole number, such as {default}", text)


def seconds(name: str, *, default: float) -> float:
    """Return a length of time, in seconds where no unit is written."""
    text = string(name, default=str(default)).strip()
    if 0 <= (length_s := _length_s(text)) < math.inf:  # which NaN is not
        return length_s
    wanted = "a number of seconds, such as 30 or 0.5, or a length of time up to 366d, such as 90s, 10m, 2h or 1d"
    raise _refusal(name, wanted, text)


def url(name: str) -> str:
    """Return the URL of a server; empty where none is set."""
    text = string(name).strip()
    if sentence := malformed(name, text):
        raise ImproperlyConfigured(sentence)
    return text


def malformed(name: str, text: str) -> str | None:
    """Return what is wrong with a variable's URL, and what to write; None if nothing is, or it is empty."""
    fault = fault_of(name, text) if text else None
    return f"{name} is malformed ({fault}): write {EXAMPLES[name]}." if fault else None


def fault_of(name: str, text: str) -> str | None:
    """Return what is wrong with a variable's URL, quoting nothing of it; None if nothing is."""
    scheme, separator, _ = text.partition("://")
    if not separator or scheme not in SCHEMES.get(name, {scheme}):
        return f"it must begin with {EXAMPLES[name].partition('//')[0]}//"
    try:
        parts = split_url(text)
        _ = parts.port
    except ValueError:
        return "its host or port cannot be read; in a password, write / # ? @ [ ] as %2F %23 %3F %40 %5B %5D"
    path = parts.path.strip("/")
    if name == "DATABASE_URL" and not path and "service" not in parse_qs(parts.query):
        return "it names no database"
    if scheme in REDIS_SCHEMES and path and not path.isdecimal():
        return "what follows the last / must be a number"
    return None


def split_url(text: str) -> SplitResult:
    """Return the parts of a URL, of the first where there are several: Celery takes several brokers."""
    return urlsplit(text.partition(";")[0])


def _length_s(text: str) -> float:
    with suppress(ValueError):
        return float(text)
    with suppress(ValueError):
        return parse_duration(text).total_seconds()
    return math.nan


def _refusal(name: str, wanted: str, text: str) -> ImproperlyConfigured:
    return ImproperlyConfigured(f"{name} must be {wanted}, but is {text!r}.")
