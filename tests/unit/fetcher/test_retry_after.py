"""What a site states in Retry-After, read as RFC 9110 has it; nonsense states nothing."""

from datetime import UTC, datetime, timedelta

import pytest

from workers.fetches.fetcher.http.retry_after import Refusal, merged, refusal

DATE = "Sat, 21 Nov 2026 10:00:00 GMT"


def read(retry_after: str, date: str = DATE) -> tuple[float | None, datetime | None]:
    """Return the stated seconds and moment."""
    read_as = refusal(site="site.example", slot_id=1, retry_after=retry_after, date=date)
    return read_as.seconds, read_as.until


@pytest.mark.parametrize(
    ("retry_after", "seconds"),
    [
        ("120", 120.0),
        (" 1 ", 1.0),
        ("0", None),
        ("", None),
        ("-5", None),
        ("1.5", None),
        ("soon", None),
        ("1e3", None),
        ("١٢", None),  # digits, but not ASCII
        ("inf", None),
        ("9" * 18, float("9" * 18)),
        ("9" * 400, None),
        ("Sat, 21 Nov 2026 10:02:00 GMT", 120.0),
        ("Saturday, 21-Nov-26 10:02:00 GMT", 120.0),
        ("Sat Nov 21 10:02:00 2026", 120.0),
        ("Sat, 21 Nov 2026 10:00:00 GMT", None),
        ("Sat, 21 Nov 2026 09:59:00 GMT", None),
        ("Sat, 99 Nov 2026 09:59:00 GMT", None),
        ("Fri, 31 Dec 99999999999999999999 23:59:59 GMT", None),
        ("Sat, 21 Nov 2026 10:02:00 +99999999999999999999", None),
    ],
)
def test_what_is_stated_is_seconds_from_the_answer_on(retry_after: str, seconds: float | None) -> None:
    """A number, or a date as it differs from the answer's own; what is not in the future counts as not stated."""
    assert read(retry_after) == (seconds, None)


@pytest.mark.parametrize("date", ["", "nonsense"])
def test_a_moment_without_the_sites_own_clock_is_left_to_the_database(date: str) -> None:
    """An answer without a Date states a moment, not a time."""
    assert read("Sat, 21 Nov 2026 10:02:00 GMT", date) == (None, datetime(2026, 11, 21, 10, 2, tzinfo=UTC))


def test_refusals_of_one_site_are_one_that_asks_for_the_most() -> None:
    """Hundreds at once cost one statement a site, or two where some state seconds and others a moment."""
    at = datetime(2026, 11, 21, tzinfo=UTC)
    assert merged(
        [
            Refusal(site="a", slot_id=5, seconds=3.0),
            Refusal(site="b", slot_id=6),
            Refusal(site="a", slot_id=4, seconds=8.0),
            Refusal(site="a", slot_id=7, until=at),
            Refusal(site="a", slot_id=3, until=at - timedelta(1)),
        ]
    ) == [
        Refusal(site="a", slot_id=5, seconds=8.0),
        Refusal(site="b", slot_id=6),
        Refusal(site="a", slot_id=7, until=at),
    ]
