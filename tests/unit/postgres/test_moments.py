"""Moments that are stored: those that can be read back."""

from datetime import date

import pytest

from tests.cases import for_each
from tests.moments import ACCEPTED, REFUSED
from weir.postgres.moments import in_utc


@for_each("case", REFUSED)
def test_what_could_not_be_read_back_is_refused(case: str) -> None:
    """The sentence names the argument, and what it may be."""
    moment, sentence = REFUSED[case]
    with pytest.raises(ValueError, match=f"^until .*{sentence}"):
        in_utc("until", moment)


@for_each("text", ["2030-01-01T00:00Z", 0, date(2030, 1, 1)])
def test_what_is_no_datetime_is_another_error(text: object) -> None:
    """It is a mistake in the caller's code."""
    with pytest.raises(TypeError, match=r"^until must be an aware datetime, not "):
        in_utc("until", text)


def test_all_others_are_accepted() -> None:
    """The ends of what Python has, too."""
    assert [in_utc("until", moment) for moment in ACCEPTED] == list(ACCEPTED)
