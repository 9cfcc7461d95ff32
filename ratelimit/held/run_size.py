"""How many starts a process reserves together for its callers: pure.

A reservation costs the site one grace. If callers come back so soon that they would have to wait for that, the next run
gets four times as many starts, until the graces are a small part. If they come later, they get as many starts as they
used of the last run: in the end single ones, with which they lose nothing.
"""

from dataclasses import dataclass

from weir.ratelimit.models import MOST_SLOTS
from weir.ratelimit.pacing import GRACE_SHARE
from weir.ratelimit.slots import Reservation

LONGEST_RUN_S = 2.0  # even if the grace is long: other processes wait for the end of the run
GROWTH = 4
CROWDED = 0.5  # of the time that the caller would wait: if the next start is farther away than that, runs get shorter


@dataclass(frozen=True, kw_only=True, slots=True)
class Need:
    """What became of the last run, when the next one is reserved."""

    used: int  # starts
    is_too_small: bool  # all were used, and the next caller was in time for one more
    is_recent: bool


@dataclass(kw_only=True, slots=True)
class RunSize:
    """The size of the next run of one process at one site. Not thread-safe."""

    _longest: int = MOST_SLOTS  # not known before the first reservation, which is of one start
    _last: int = 0
    _is_crowded: bool = False

    @property
    def may_be_longer(self) -> bool:
        """Whether runs of several starts may be worthwhile: then one caller reserves for all."""
        return self._longest > 1

    def next(self, waiting: int, need: Need | None) -> int:
        """Return how many starts to reserve for this number of waiting callers; `need` is what the last run tells."""
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
        """Record what was reserved, and how far ahead."""
        run_s = min(LONGEST_RUN_S, reservation.grace_s / GRACE_SHARE)
        self._longest = min(MOST_SLOTS, max(1, round(run_s / reservation.run.interval_s)))
        self._last, self._is_crowded = count, wait_s > max_wait * CROWDED
