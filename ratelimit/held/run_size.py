"""How many starts a process reserves together for its callers: pure.

A reservation costs the site one grace. If callers come back so soon that they would have to wait for the end of this
grace, the next run gets four times as many starts, until graces are a small part of the time. If callers come back
later, the next run gets as many starts as they used of the last run. In the end they get single starts, with which they
lose no time.
"""

from dataclasses import dataclass

from weir.ratelimit.models import MOST_SLOTS
from weir.ratelimit.pacing import GRACE_SHARE
from weir.ratelimit.slots import Reservation

LONGEST_RUN_S = 2.0  # even if the grace is long, because other processes wait for the end of the run
GROWTH = 4
CROWDED = 0.5  # runs get shorter if the next start is farther away than this part of the time that the caller may wait


@dataclass(frozen=True, kw_only=True, slots=True)
class Need:
    """What became of the last run, when the next one is reserved."""

    used: int  # starts of the last run that were used
    is_too_small: bool  # the run was used up (held_run.USED_UP), and the next caller was in time for one more start
    is_recent: bool  # a caller came or left within the last LONGEST_RUN_S


@dataclass(kw_only=True, slots=True)
class RunSize:
    """The size of the next run of one process at one site. Not thread-safe."""

    _longest: int = MOST_SLOTS  # the limit is not known before the first reservation, which has one start
    _last: int = 0
    _is_crowded: bool = False

    @property
    def may_be_longer(self) -> bool:
        """Whether runs of several starts may be worthwhile. If so, one caller reserves for all."""
        return self._longest > 1

    def next(self, waiting: int, need: Need | None) -> int:
        """Return how many starts to reserve for this number of waiting callers; `need` describes the last run."""
        if need is None:
            size = 1
        elif self._is_crowded:
            size = self._last // 2
        elif need.is_too_small:
            size = max(waiting, self._last * GROWTH)
        else:
            size = max(waiting, need.used if need.is_recent else 1)
        return max(1, min(size, self._longest))

    def reserved(self, count: int, reservation: Reservation, *, wait_s: float, max_wait: float) -> None:
        """Record that `count` starts were reserved, the first of them `wait_s` seconds ahead."""
        run_s = min(LONGEST_RUN_S, reservation.grace_s / GRACE_SHARE)
        self._longest = min(MOST_SLOTS, max(1, round(run_s / reservation.run.interval_s)))
        self._last, self._is_crowded = count, wait_s > max_wait * CROWDED
