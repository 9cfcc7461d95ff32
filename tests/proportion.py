"""Compare the processor time of two pieces of work: how many times as long one takes as the other.

A bound in seconds is that of one machine; another one is several times as slow in some hours. Its peer is as slow then:
a test measures both, one right after the other.
"""

import math
import time
from collections.abc import Callable


def spent_s(work: Callable[[], object]) -> float:
    """Return the processor time that this takes now; what other threads do is not counted."""
    began_at = time.thread_time()
    work()
    return time.thread_time() - began_at


def times_as_long(work: Callable[[], object], peer: Callable[[], object], enough: float) -> float:
    """Return how many times as long the work takes as its peer; see `proportion`."""
    return proportion(lambda: spent_s(work), lambda: spent_s(peer), enough)


def proportion(work_s: Callable[[], float], peer_s: Callable[[], float], enough: float) -> float:
    """Return the shortest time of the work by the shortest time of its peer; each of the two returns a time.

    They are measured in turns, three times at most: what disturbs a measurement makes it longer. They are measured no
    more once the result is below `enough`.
    """
    shortest_s, of_peer_s = math.inf, math.inf
    for _ in range(3):
        shortest_s, of_peer_s = min(shortest_s, work_s()), min(of_peer_s, peer_s())
        if shortest_s < enough * of_peer_s:
            break
    return shortest_s / of_peer_s
