"""GCRA, the generic cell rate algorithm (ITU-T I.371): the arithmetic of starts, in seconds. Pure.

In PostgreSQL, functions of these names compute the same (migrations/0002_formula.py, and `next_start` in
0003_doors.py): all statements that reserve, publish or estimate call them. tests/integration/ratelimit/test_formula.py
compares the two.

A start has an *arrival*, which is an interval after the arrival of the start before. With a burst, a start may lie
before its arrival, by the *tolerance* at most. Within a run, starts are a *spacing* apart. The site belongs to the
holder of a run for the *run length*.
"""

import math
from typing import Final

# More than the interval, so that a holder whose timer was late can catch up within a run.
SPACING: Final = 1.01  # of the interval
# The default, for a site without a setting; each hand-over between two holders costs one grace.
GRACE: Final = 0.025  # of the interval
SHORTEST_GRACE_S, LONGEST_GRACE_S = 0.025, 0.25


def spacing_s(interval_s: float) -> float:
    """Return the time between two starts of a run."""
    return interval_s * SPACING


def grace_s(interval_s: float) -> float:
    """Return the default grace."""
    return min(max(interval_s * GRACE, SHORTEST_GRACE_S), LONGEST_GRACE_S)


def tolerance_s(burst: int, interval_s: float) -> float:
    """Return how far before its arrival a start may lie."""
    return (burst - 1) * interval_s


def run_length_s(count: int, spacing_s: float, grace_s: float) -> float:
    """Return how long the site belongs to the holder of this many starts, from the arrival of the first one.

    The first start of the next reservation has its arrival an interval after the end of this time.
    """
    return (count - 1) * spacing_s + grace_s


def start_s(place: int, arrival_s: float, soonest_s: float, spacing_s: float, tolerance_s: float) -> float:
    """Return the time of the start at this place in a run, counted from 0; `arrival_s` is the first start's arrival."""
    return max(soonest_s, arrival_s + place * spacing_s - tolerance_s)


def room(ahead_s: float, spacing_s: float) -> int:
    """Return how many starts that are `spacing_s` apart fit into `ahead_s` seconds, the first at their beginning."""
    return 1 + math.floor(ahead_s / spacing_s)
