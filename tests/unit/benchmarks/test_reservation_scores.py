"""benchmarks.reservations.scores: how the callers' notes are judged."""

import pytest

from benchmarks.reservations.callers import Notes
from benchmarks.reservations.scenarios import FAST, UNREFUSED
from benchmarks.reservations.scores import judge, total

MS = 1_000_000  # ns


def notes(*starts: tuple[str, int], refusals: int = 0) -> Notes:
    return Notes(starts=list(starts), granted=len(starts), refusals=refusals, granted_calls_ns=[MS] * len(starts))


def test_starts_of_two_processes_at_one_site_are_too_close() -> None:
    """A gap is between starts at one site, of any processes; other sites and the order of the notes do not matter."""
    interval_ns = 5 * MS
    one, other = notes(("a", 2 * interval_ns), ("a", 0), refusals=3), notes(("a", interval_ns - 1), ("b", 1))

    score = judge([one, other], FAST)

    assert (score.starts, score.violations, score.refusals) == (4, 1, 3)
    assert score.shortest_gap == pytest.approx((interval_ns - 1) / interval_ns)
    assert score.refusals_per_grant == 0.75
    assert score.per_s == 4 / FAST.turn_s
    assert score.p99_ms == 1


def test_a_gap_of_the_interval_is_long_enough() -> None:
    """Starts exactly an interval apart are no violation."""
    score = judge([notes(("a", 0), ("a", 5 * MS))], FAST)

    assert (score.violations, score.shortest_gap) == (0, 1)


def test_without_an_interval_grants_are_counted() -> None:
    """Without an interval there is nothing to violate; the rate is that of grants."""
    score = judge([Notes(granted=30, granted_calls_ns=[MS] * 30)], UNREFUSED)

    assert (score.violations, score.shortest_gap, score.per_s) == (0, None, 30 / UNREFUSED.turn_s)


def test_turns_add_up() -> None:
    """All turns' violations and refusals count; the rate is the turns' median."""
    turns = [
        judge([notes(*starts, refusals=1)], FAST)
        for starts in (
            [("a", 0), ("a", MS)],
            [("a", 0), ("a", 5 * MS), ("a", 10 * MS), ("b", 0)],
            [("a", 0), ("a", 2 * MS), ("a", 7 * MS)],
        )
    ]

    score = total(turns)

    assert (score.starts, score.violations, score.refusals, score.granted) == (9, 2, 3, 9)
    assert (score.shortest_gap, score.per_s) == (0.2, 3 / FAST.turn_s)
