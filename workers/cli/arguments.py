"""Types for argparse, which check the values on the command line. An error names the expected and the given value."""

import argparse
import re
from collections.abc import Callable, Iterable
from datetime import timedelta

from weir.conf.texts.rates import parse_duration
from weir.conf.texts.references import usable_reference
from weir.conf.texts.request_headers import parse_header
from weir.conf.texts.request_query import parse_parameter
from weir.conf.texts.share_weights import parse_weight, usable_share
from weir.conf.texts.site_network import parse_network
from weir.conf.texts.suggestions import no_such_word
from weir.ratelimit.changing.statuses import parse_statuses

LARGEST = 2**31 - 1  # the largest integer in PostgreSQL
LARGEST_ID = 2**63 - 1  # the largest bigint
LAST_PORT = 65_535
_DIGITS = re.compile(r"-?[0-9]+", re.ASCII)  # Python's int() also reads 1_0, +5, blanks and the digits of other scripts


def whole_number(text: str) -> int:
    """Return the whole number, which may be negative."""
    return _between(text, -LARGEST, LARGEST, "a whole number")


def from_zero(text: str) -> int:
    """Return the whole number, which must be 0 or more."""
    return _between(text, 0, LARGEST, "a whole number from 0 up")


def at_least_one(text: str) -> int:
    """Return the whole number, which must be 1 or more."""
    return _between(text, 1, LARGEST, "a whole number above 0")


def row_id(text: str) -> int:
    """Return the whole number, which must be 1 or more, and may be a bigint."""
    return _between(text, 1, LARGEST_ID, "a whole number above 0")


def port(text: str) -> int:
    """Return the TCP port."""
    return _between(text, 1, LAST_PORT, "a whole number above 0")


def duration(text: str) -> timedelta:
    """Return the length of time, which must be above 0: 30 or 0.5 (seconds), 50ms, 90s, 10m, 2h, 1d."""
    try:
        return parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def seconds(text: str) -> float:
    """Return the length of time in seconds, from the forms that `duration` reads."""
    return duration(text).total_seconds()


def statuses(text: str) -> list[int]:
    """Return the HTTP statuses in a list such as 403,999."""
    try:
        return parse_statuses(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def parameter(text: str) -> tuple[str, str]:
    """Return the name and the value of a parameter such as 'key={secret:NAME}'."""
    try:
        return parse_parameter(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def network(text: str) -> tuple[str, str]:
    """Return the name and the value of a setting such as 'ca={secret:NAME}'."""
    try:
        return parse_network(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def share(text: str) -> str | None:
    """Return the name of a share such as 'tenant-7'."""
    try:
        return usable_share(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def reference(text: str) -> str | None:
    """Return a reference such as 'page-42'."""
    try:
        return usable_reference(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def weight(text: str) -> tuple[str, int]:
    """Return the name and the weight of a share such as 'tenant-7=3'."""
    try:
        return parse_weight(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def header(text: str) -> tuple[str, str]:
    """Return the name and the value of a header such as 'Accept: application/json'."""
    try:
        return parse_header(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def utf8(text: str) -> str:
    """Return the text if PostgreSQL can store it. Python turns bytes that are not UTF-8 into lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise argparse.ArgumentTypeError("it must be text in UTF-8") from None
    if "\0" in text:
        raise argparse.ArgumentTypeError("it must not contain NUL")
    return text


def one_of(words: Iterable[str], what: str) -> Callable[[str], str]:
    """Return a type that accepts one of these words, and refuses any other word with a suggestion."""
    known = [str(word) for word in words]

    def read(text: str) -> str:
        if text not in known:
            raise argparse.ArgumentTypeError(no_such_word(text, known, what))
        return text

    return read


def _between(text: str, least: int, most: int, what: str) -> int:
    try:
        number = int(text if _DIGITS.fullmatch(text) else "")
    except ValueError:  # Python raises it also for too many digits
        raise argparse.ArgumentTypeError(f"must be {what}, not {text!r}") from None
    if number > most:
        raise argparse.ArgumentTypeError(f"must be at most {most}, not {text!r}")
    if number < least:
        bound = what if least >= 0 else f"at least {least}"
        raise argparse.ArgumentTypeError(f"must be {bound}, not {text!r}")
    return number
