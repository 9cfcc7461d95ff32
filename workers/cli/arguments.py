"""Types for argparse: numbers on the command line. An error names what is expected, and what was given."""

import argparse
import math

LARGEST = 2**31 - 1  # of PostgreSQL's integer
LARGEST_ID = 2**63 - 1  # of its bigint


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


def seconds(text: str) -> float:
    """Return the number of seconds, which must be above 0."""
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
