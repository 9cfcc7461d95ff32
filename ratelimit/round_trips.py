"""How far away PostgreSQL is: processes measure their round trips, and add them to the grace.

PostgreSQL's answer about a slot was true at a moment between the sending of the statement and the arrival of the
answer. The process counts the time until a start from the arrival, and the time until a deadline from the sending. So
the time by which a start may be late gets shorter by a round trip, which is added to the grace when slots are reserved.
A process that reserves for itself adds its own round trip. A process that reserves for others adds the longest one that
any of them has reported.

The round trip that counts is the time within which nearly all of the last MOST_SAMPLES round trips of the last minute
ended. It includes the commit, but not the time that the server itself took, such as a wait for a lock.

If round trips get longer after a reservation, and its time does not suffice, its slots are given back. No slot is ever
used early, whatever was measured.
"""

import math
import os
import threading
from collections import deque

from weir.logs.loggers import get_logger
from weir.ratelimit import clock

log = get_logger(__name__)

WINDOW_S = 60.0
MOST_SAMPLES = 400
NEARLY_ALL = 0.95
FEWEST = 5  # samples from which the usual time is known: the first round trip of a connection takes twice as long
INCLUDED_S = 0.002  # the round trip for which a grace is long enough without an addition
LONGEST_S = 1.0  # a longer round trip is due to an outage, not to the distance
FAR_S = 0.05  # beyond this, callers of `throttle` get less than 95 % of the rate of a fast site
WARN_EVERY_S = 60.0


class RoundTrips:
    """The round trips of one process. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._samples: deque[tuple[float, float]] = deque(maxlen=MOST_SAMPLES)
        self._warned_at = -math.inf

    def note(self, seconds: float) -> None:
        """Record how long a round trip took."""
        with self._lock:
            self._samples.append((clock.now(), min(max(0.0, seconds), LONGEST_S)))

    def expected_s(self) -> float:
        """Return the time within which nearly all of the last minute's round trips ended; 0 if none was measured."""
        return self._lately(NEARLY_ALL)

    def usual_s(self) -> float:
        """Return the median of the last minute's round trips, which a stall of this process does not change much."""
        return self._lately(0.5) if len(self._samples) >= FEWEST else 0.0

    def _lately(self, share: float) -> float:
        with self._lock:
            since = clock.now() - WINDOW_S
            lately = sorted(seconds for at, seconds in self._samples if at > since)
        return lately[math.ceil(len(lately) * share) - 1] if lately else 0.0

    def warn_if_far(self, round_trip_s: float) -> None:
        """Log, once a minute at most, that sites cannot use their whole rate because PostgreSQL is so far away."""
        if round_trip_s >= FAR_S and clock.now() > self._warned_at + WARN_EVERY_S:
            self._warned_at = clock.now()
            log.warning("database_is_far", round_trip_ms=round(round_trip_s * 1000, 1))


of_process = RoundTrips()


def _forget() -> None:
    """Begin anew in a forked child: another thread of the parent may have held the lock at the fork."""
    global of_process  # noqa: PLW0603  one for each process
    of_process = RoundTrips()


os.register_at_fork(after_in_child=_forget)


def added_grace_s(round_trip_s: float) -> float:
    """Return the seconds that a round trip of this length adds to the grace of a reservation."""
    return max(0.0, round_trip_s - INCLUDED_S)
