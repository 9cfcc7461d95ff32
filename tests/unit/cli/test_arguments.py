"""What is no number is refused in a sentence that says what it must be, never with a name from the code."""

import argparse
from collections.abc import Callable

import pytest

from tests.cases import for_each
from weir.workers.cli.arguments import at_least_one, from_zero, row_id, seconds, whole_number


@for_each(
    ("read", "text", "value"),
    [
        (whole_number, "-7", -7),
        (from_zero, "0", 0),
        (at_least_one, "1", 1),
        (at_least_one, "2147483647", 2**31 - 1),
        (row_id, "9223372036854775807", 2**63 - 1),
        (seconds, "0.25", 0.25),
        (seconds, "1e3", 1000.0),
        (seconds, "10m", 600.0),
    ],
)
def test_a_number_is_read(read: Callable[[str], float], text: str, value: float) -> None:
    """The least and the largest that PostgreSQL can store belong to what may be given."""
    assert read(text) == value


@for_each("text", ["abc", "", "1.5", "nan", "9" * 5_000, "-1\udce9", "1_0", "+5", " 5", "\u0665", "--5"])
@for_each("read", [whole_number, from_zero, at_least_one, row_id])
def test_what_is_no_whole_number_is_refused(read: Callable[[str], int], text: str) -> None:
    """The sentence has the text, in a form that any terminal can show."""
    with pytest.raises(argparse.ArgumentTypeError, match=r"^must be a whole number") as refusal:
        read(text)
    assert str(refusal.value).endswith(f", not {text!r}")


@for_each(
    ("read", "text", "sentence"),
    [
        (from_zero, "-1", "must be a whole number from 0 up, not '-1'"),
        (at_least_one, "0", "must be a whole number above 0, not '0'"),
        (at_least_one, "2147483648", "must be at most 2147483647, not '2147483648'"),
        (whole_number, "-2147483648", "must be at least -2147483647, not '-2147483648'"),
        (row_id, "9223372036854775808", "must be at most 9223372036854775807, not '9223372036854775808'"),
    ],
)
def test_a_number_out_of_range_is_refused_with_the_bound(read: Callable[[str], int], text: str, sentence: str) -> None:
    """Which one it is."""
    with pytest.raises(argparse.ArgumentTypeError) as refusal:
        read(text)
    assert str(refusal.value) == sentence


@for_each("text", ["nan", "inf", "-1", "0", "-0.0", "soon", "", "1e999"])
def test_what_is_no_length_of_time_is_refused(text: str) -> None:
    """Endless, negative and no time at all are none."""
    with pytest.raises(argparse.ArgumentTypeError) as refusal:
        seconds(text)
    assert str(refusal.value).startswith(f"{text!r} is ")
