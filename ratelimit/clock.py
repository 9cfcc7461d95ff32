"""The clock of those who hold slots: it cannot be set, and goes on while the host is suspended.

On Linux `time.monotonic()` stands still meanwhile: a process that wakes up would find that a run, or a confirmation,
from before still holds, while other hosts have gone on. What is compared with the times of a run (ratelimit.pacing) is
read here. Timers may go by another clock, as each holder looks at this one before it starts anything.
"""

import time

# Elsewhere CLOCK_MONOTONIC itself goes on.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def now() -> float:
    """Return the seconds since some moment, the same for all processes of this host."""
    return time.clock_gettime(_CLOCK)
