"""Whether PostgreSQL's clock was stepped: compares two readings of it with a clock of this host that cannot be set.

A reading says what PostgreSQL's clock showed at some moment between the question and the answer. So two readings tell
how much time has passed by PostgreSQL's clock, and how much by this host's. If the two times differ by more than clocks
drift or are slewed, one of the clocks was stepped. That may be this host's clock: a paused virtual machine does not
count the time of the pause, and a moved one may get a clock that is ahead. The generation of the timeline (gate.py)
tells which clock was stepped, because other processes let it grow by about one each second.

Pure functions, except `now`.
"""

import time
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from psycopg.types.range import TimestamptzRange

# This clock goes on while the host is suspended: CLOCK_BOOTTIME on Linux, CLOCK_MONOTONIC elsewhere.
_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
SLACK_S: Final = 0.25
DRIFT: Final = 0.001  # as a share of the time that has passed: twice the rate at which NTP slews a clock
LATE_S: Final = 1.0  # a statement that needs longer than this plus a round trip to reach PostgreSQL is granted nothing
OTHERS_COUNTED: Final = 3  # by how much the growth of the generation may exceed the seconds that have passed
LONG_S: Final = 30.0  # in this time the generation must have grown, if any process runs
LEAST_COUNTED: Final = 0.25  # the least growth of the generation in a second
MOST_COUNTED: Final = 10**6  # a greater growth does not count seconds: it comes from a recovery


def now() -> float:
    """Return the time of a clock that cannot be set: the seconds since a moment that is the same for the whole host."""
    return time.clock_gettime(_CLOCK)


class ClockReading(NamedTuple):
    """What PostgreSQL's clock showed, and when this process asked and got the answer."""

    asked_at: float  # by now()
    answered_at: float  # by now()
    database_s: float  # in seconds since 1970
    steps: int  # how many steps were settled before
    generation: int  # the generation of the timeline


def step_s(before: ClockReading, after: ClockReading) -> float:
    """Return by how many seconds PostgreSQL's clock was stepped forward, at most; negative: back; 0.0: not stepped."""
    at_least = after.asked_at - before.answered_at  # below 0 if two threads have asked at the same time
    at_most = after.answered_at - before.asked_at
    passed = after.database_s - before.database_s
    slack = SLACK_S + DRIFT * at_most
    if at_least - slack <= passed <= at_most + slack:
        return 0.0
    counted = after.generation - before.generation
    stood_still = passed > 0 and at_most + OTHERS_COUNTED < counted < MOST_COUNTED
    # If the generation grew as usual by PostgreSQL's clock, this host's clock went ahead. If PostgreSQL was away, the
    # generation did not grow, and PostgreSQL's clock may have been stepped back.
    counted_on = passed >= 0 and counted >= passed * LEAST_COUNTED - 1
    went_ahead = counted_on and at_least > LONG_S and passed < at_least and counted < at_least * LEAST_COUNTED
    return 0.0 if stood_still or went_ahead else passed - at_least


def expected(reading: ClockReading, sent_at: float) -> TimestamptzRange:
    """Return the range of times that PostgreSQL's clock may show when a statement sent at `sent_at` arrives.

    The range holds unless the clock is stepped.
    """
    round_trip_s = reading.answered_at - reading.asked_at
    earliest = reading.database_s + (sent_at - reading.answered_at) - LATE_S
    latest = reading.database_s + (sent_at - reading.asked_at) + round_trip_s + LATE_S
    return TimestamptzRange(_moment(earliest), _moment(latest))


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(0, UTC) + timedelta(seconds=seconds)
