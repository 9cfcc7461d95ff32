"""How far PostgreSQL is: what a process measures, and when it says so."""

import pytest
from structlog.testing import capture_logs

from tests.cases import for_each
from weir.ratelimit import clock, round_trips
from weir.ratelimit.round_trips import RoundTrips, added_grace_s


def measured(*milliseconds: float) -> RoundTrips:
    trips = RoundTrips()
    for one in milliseconds:
        trips.note(one / 1000)
    return trips


@for_each(
    ("milliseconds", "expected_ms"),
    [
        ([], 0),
        ([3], 3),
        ([3, 50, 4], 50),  # of a few, the longest
        ([1] * 95 + [500] * 5, 1),  # of many, nearly all
        ([1] * 94 + [500] * 6, 500),
        ([1] * 500 + [40] * 400, 40),  # the last ones count
        ([5_000], 1_000),  # an outage is no distance
        ([-1], 0),
    ],
)
def test_nearly_all_round_trips_count(milliseconds: list[float], expected_ms: float) -> None:
    """A table of what was measured, and what is expected of the next one."""
    assert measured(*milliseconds).expected_s() == pytest.approx(expected_ms / 1000)


def test_a_stall_is_no_distance() -> None:
    """What a round trip usually takes is told; what one takes at most counts for the grace."""
    trips = measured(1, 1, 1, 1, 300)
    assert (trips.usual_s(), trips.expected_s()) == pytest.approx((0.001, 0.3))
    assert measured(300).usual_s() == 0  # one says little


def test_what_was_measured_long_ago_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a minute without a long round trip the grace is short again."""
    trips, now = measured(80), clock.now()
    assert trips.expected_s() == pytest.approx(0.08)
    monkeypatch.setattr(clock, "now", lambda: now + 61)
    trips.note(0.001)
    assert trips.expected_s() == pytest.approx(0.001)


@for_each(("round_trip_ms", "added_ms"), [(0, 0), (2, 0), (5, 3), (50, 48)])
def test_a_round_trip_adds_to_the_grace(round_trip_ms: float, added_ms: float) -> None:
    """A short one is part of any grace."""
    assert added_grace_s(round_trip_ms / 1000) == pytest.approx(added_ms / 1000)


def test_a_far_database_is_told_once_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    """The warning says how far it is; a near one is not worth a word."""
    trips, now = RoundTrips(), clock.now()
    with capture_logs() as logs:
        trips.warn_if_far(0.02)
        trips.warn_if_far(0.08)
        trips.warn_if_far(0.08)
        monkeypatch.setattr(clock, "now", lambda: now + 61)
        trips.warn_if_far(round_trips.FAR_S)
    assert [(log["event"], log["log_level"], log["round_trip_ms"]) for log in logs] == [
        ("database_is_far", "warning", 80.0),
        ("database_is_far", "warning", 50.0),
    ]
