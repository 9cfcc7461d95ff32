"""The clock of holders of slots: it cannot be set, and goes on while the host is suspended.

On Linux `time.monotonic()` stands still while the host is suspended: to a process that wakes up, an earlier run or
confirmation would still seem to hold, while other hosts have gone on. Times that are compared with those of a run
(weir.ratelimit.pacing) are read from this clock. Timers may use another clock, because each holder looks at this one
before it starts anything.
"""

from weir.postgres.timeline.steps import now

__all__ = ["now"]
