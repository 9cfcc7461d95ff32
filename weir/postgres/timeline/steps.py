"""Whether PostgreSQL's clock was stepped: two readings of it are compared by a clock that cannot be set.

A reading says what PostgreSQL's clock was at some moment between the question and the answer. So two readings tell how
much time has passed by PostgreSQL's clock, and by this host's. If the two differ by more than clocks drift, or are
slewed, one of the clocks was stepped. It may be this host's: a virtual machine that is paused does not count that time,
and one that is moved may get a clock that is ahead. The generation of the timeline (gate.py) tells which: others have
made it grow meanwhile, by about one each second, or have not.

Pure, but for `now`.
"""

import time
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from psycopg.types.range import TimestamptzRange

# On Linux this clock goes on while the host is suspended, as CLOCK_MONOTONIC does elsewhere.
_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
SLACK_S: Final = 0.25
DRIFT: Final = 0.001  # of the time that has passed: twice what NTP slews a clock by
LATE_S: Final = 1.0  # a statement that takes longer to PostgreSQL than this, and a round trip, is granted nothing
OTHERS_COUNTED: Final = 3  # the generation cannot have grown by so much more than the seconds that have passed
LONG_S: Final = 30.0  # in such a time others must have counted something, if any process runs
LEAST_COUNTED: Final = 0.25  # each second
MOST_COUNTED: Final = 10**6  # a greater number does not count seconds: it comes from a recovery


def now() -> float:
    """Return the time of a clock that cannot be set: the seconds since some moment, the same for the whole host."""
    return time.clock_gettime(_CLOCK)


class ClockReading(NamedTuple):
    """What PostgreSQL's clock was, and when this process asked."""

    asked_at: float  # of now()
    answered_at: float
    database_s: float  # since 1970
    steps: int  # that were settled before
    generation: int  # of the timeline


def step_s(before: ClockReading, after: ClockReading) -> float:
    """Return by how many seconds PostgreSQL's clock was stepped forward, at most; below 0: back; 0.0: not at all."""
    at_least = after.asked_at - before.answered_at  # below 0 if two threads have asked at the same time
    at_most = after.answered_at - before.asked_at
    passed = after.database_s - before.database_s
    slack = SLACK_S + DRIFT * at_most
    if at_least - slack <= passed <= at_most + slack:
        return 0.0
    counted = after.generation - before.generation
    stood_still = passed > 0 and at_most + OTHERS_COUNTED < counted < MOST_COUNTED
    # If others have counted as usual by PostgreSQL's clock, this host's went ahead. While PostgreSQL was away, no
    # process counted, and its clock may have been stepped back.
    counted_on = passed >= 0 and counted >= passed * LEAST_COUNTED - 1
    went_ahead = counted_on and at_least > LONG_S and passed < at_least and counted < at_least * LEAST_COUNTED
    return 0.0 if stood_still or went_ahead else passed - at_least


def expected(reading: ClockReading, sent_at: float) -> TimestamptzRange:
    """Return between which moments of PostgreSQL's clock a statement sent then arrives, unless the clock is stepped."""
    round_trip_s = reading.answered_at - reading.asked_at
    earliest = reading.database_s + (sent_at - reading.answered_at) - LATE_S
    latest = reading.database_s + (sent_at - reading.asked_at) + round_trip_s + LATE_S
    return TimestamptzRange(_moment(earliest), _moment(latest))


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(0, UTC) + timedelta(seconds=seconds)
