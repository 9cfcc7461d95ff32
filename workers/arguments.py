"""Numbers on the command line, for argparse: a refusal says what must be there, and what is."""

import argparse
import math

LARGEST = 2**31 - 1  # of PostgreSQL's integer
LARGEST_ID = 2**63 - 1  # of its bigint


def whole_number(text: str) -> int:
    """Return a whole number, which may be negative."""
    return _between(text, -LARGEST, LARGEST, "a whole number")


def from_zero(text: str) -> int:
    """Return a whole number from 0 up."""
    return _between(text, 0, LARGEST, "a whole number from 0 up")


def at_least_one(text: str) -> int:
    """Return a whole number from 1 up."""
    return _between(text, 1, LARGEST, "a whole number above 0")


def row_id(text: str) -> int:
    """Return what may be the id of a row."""
    return _between(text, 1, LARGEST_ID, "a whole number above 0")


def seconds(text: str) -> float:
    """Return a length of time above 0."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"must be a number of seconds above 0, not {text!r}")
    return number


def _between(text: str, least: int, most: int, what: str) -> int:
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be {what}, not {text!r}") from None
    if number > most:
        raise argparse.ArgumentTypeError(f"must be at most {most}, not {text!r}")
    if number < least:
        bound = what if least >= 0 else f"at least {least}"
        raise argparse.ArgumentTypeError(f"must be {bound}, not {text!r}")
    return number
