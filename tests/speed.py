"""How much slower this machine is than the one on which the bounds of processor time in tests were chosen.

A bound of processor time holds for the work that a test does, and machines differ by a factor of three, the same one
from hour to hour. So a test multiplies its bound by `slowness()`, which it measures beside the work.
"""

import time
from typing import Final

ROUNDS: Final = 200_000
TAKES_S: Final = 0.012  # for these rounds, on the machine on which the bounds were chosen


def slowness() -> float:
    """Return the factor, at least 1: the best of three short loops."""
    return max(1.0, min(_loop_s() for _ in range(3)) / TAKES_S)


def _loop_s() -> float:
    began, total = time.thread_time(), 0
    for number in range(ROUNDS):
        total += number
    return time.thread_time() - began
