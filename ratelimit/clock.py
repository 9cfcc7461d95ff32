"""The clock of those who hold slots: it cannot be set, and goes on while the host is suspended.

On Linux `time.monotonic()` stands still meanwhile: a process that wakes up would find that a run, or a confirmation,
from before still holds, while other hosts have gone on. What is compared with the times of a run
(weir.ratelimit.pacing) is read here. Timers may go by another clock, as each holder looks at this one before it starts
anything.
"""

from weir.postgres.timeline.steps import now

__all__ = ["now"]
