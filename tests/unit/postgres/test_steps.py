"""Whether PostgreSQL's clock was stepped, by two readings of it."""

from datetime import UTC, datetime

import pytest

from tests.cases import for_each
from weir.postgres.timeline.steps import ClockReading, expected, step_s

HOUR_S = 3600.0
BEFORE = ClockReading(asked_at=100.0, answered_at=100.1, database_s=1_000_000.0, steps=0, generation=50)


def after(elapsed_s: float, *, database_s: float, round_trip_s: float = 0.1, counted: int = 1) -> ClockReading:
    """Return a reading that was asked for so long after the first."""
    return ClockReading(
        asked_at=100.1 + elapsed_s,
        answered_at=100.1 + elapsed_s + round_trip_s,
        database_s=1_000_000.0 + database_s,
        steps=0,
        generation=50 + counted,
    )


@for_each(
    "reading",
    [
        after(2, database_s=2.1),
        after(2, database_s=1.8),
        after(2, database_s=7.0, round_trip_s=5.0),  # the answer took long, and the clock was read at its end
        after(2, database_s=2.0, round_trip_s=5.0),  # or at its beginning
        after(HOUR_S, database_s=HOUR_S + 3.0),  # slewed, or drifted
        after(2, database_s=62.0, counted=60),  # this host stood still: others have counted on
        after(HOUR_S + 2, database_s=2, counted=2),  # this host's clock went ahead: nobody has counted that long
    ],
)
def test_a_clock_that_has_run_on(reading: ClockReading) -> None:
    assert step_s(BEFORE, reading) == 0.0


def test_threads_that_ask_at_the_same_time_prove_no_step() -> None:
    """The first question took long to PostgreSQL, and the second one's answer took long from there."""
    first = BEFORE._replace(answered_at=105.0, database_s=1_000_004.9)
    second = BEFORE._replace(asked_at=101.0, answered_at=106.0, database_s=1_000_001.1)
    assert step_s(first, second) == 0.0


@for_each(
    ("reading", "step"),
    [
        (after(2, database_s=HOUR_S + 2), HOUR_S),
        (after(2, database_s=2 - HOUR_S), -HOUR_S),
        (after(HOUR_S, database_s=0, counted=3000), -HOUR_S),
        (after(40, database_s=40 - HOUR_S), -HOUR_S),  # PostgreSQL was away meanwhile: nobody could count
        (after(40, database_s=30), -10.0),
        (after(2, database_s=3), 1.0),
        (after(2, database_s=62.0, counted=2), 60.0),
        (after(2, database_s=HOUR_S, counted=10**9), HOUR_S - 2),  # a recovery, which is no count of seconds
    ],
)
def test_a_clock_that_was_stepped(reading: ClockReading, step: float) -> None:
    """By what it says at most: sites that rest by that are not asked early."""
    assert step_s(BEFORE, reading) == pytest.approx(step, abs=0.001)


def test_a_statement_is_expected_within_a_second_and_the_round_trips() -> None:
    arrives = expected(BEFORE, 101.0)
    assert arrives.lower == datetime.fromtimestamp(1_000_000 - 0.1, UTC)
    assert arrives.upper == datetime.fromtimestamp(1_000_000 + 2.1, UTC)
