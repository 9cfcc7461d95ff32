"""How far away PostgreSQL is: the round trips that processes measure, and what they add to the grace.

PostgreSQL's answer about a slot was true at a moment between the sending of the statement and the arrival of the
answer. Starts are counted from the arrival, deadlines from the sending. So the time by which a start may be late gets
shorter by a round trip, which is added to the grace when slots are reserved. A process that reserves for itself adds
its own; one that reserves for others adds the longest that one of them has reported. What counts is the time within
which nearly all of the last round trips ended (MOST_SAMPLES, none older than a minute), with the commit, and without
the time that the server itself took, such as a wait for a lock.

A reservation that was made before round trips got longer is given back if its time does not suffice. It is never used
early: that does not depend on what was measured.
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
FEWEST = 5  # samples that tell what is usual: the first of a connection takes twice as long
INCLUDED_S = 0.002  # the round trip that a grace allows for by itself
LONGEST_S = 1.0  # more is an outage, not a distance
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
        """Return what a round trip usually takes: a stall of this process makes one long, but is not a distance."""
        return self._lately(0.5) if len(self._samples) >= FEWEST else 0.0

    def _lately(self, share: float) -> float:
        with self._lock:
            since = clock.now() - WINDOW_S
            lately = sorted(seconds for at, seconds in self._samples if at > since)
        return lately[math.ceil(len(lately) * share) - 1] if lately else 0.0

    def warn_if_far(self, round_trip_s: float) -> None:
        """Log, once a minute, that sites cannot use their whole rate because PostgreSQL is so far away."""
        if round_trip_s >= FAR_S and clock.now() > self._warned_at + WARN_EVERY_S:
            self._warned_at = clock.now()
            log.warning("database_is_far", round_trip_ms=round(round_trip_s * 1000, 1))


of_process = RoundTrips()


def _forget() -> None:
    """Begin anew: another thread of the parent may have held the lock."""
    global of_process  # noqa: PLW0603  one for each process
    of_process = RoundTrips()


os.register_at_fork(after_in_child=_forget)


def added_grace_s(round_trip_s: float) -> float:
    """Return the seconds that such round trips add to the grace of a reservation."""
    return max(0.0, round_trip_s - INCLUDED_S)
