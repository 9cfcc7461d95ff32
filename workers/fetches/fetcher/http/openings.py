"""How long connections to sites take to open, and so how long before its slot a request begins to open one.

A fetcher learns this for each site. The first request to a slow site loses its slot, but no attempt: the fetcher began
too late, and begins earlier the next time.
"""

from weir.workers.fetches.fetcher.remembered import Remembered

OPEN_AHEAD = 0.5  # seconds before its slot at which a request begins to open its connection, unless the site is slow
SPARE = 1.5  # how many times as long as the slowest recent one a connection may take
FORGET = 0.9  # by which each quicker connection multiplies the slowest time
MOST_SITES = 50_000  # slow sites that are remembered


class Openings:
    """The slow sites of one fetcher. On the loop's thread only."""

    def __init__(self) -> None:
        # By site; only those that need more than OPEN_AHEAD.
        self._slowest_s: Remembered[int, float] = Remembered(MOST_SITES)

    def ahead_s(self, site_id: int) -> float:
        """Return how many seconds before its slot a request to the site begins to open its connection."""
        return SPARE * self._slowest_s.get(site_id, OPEN_AHEAD / SPARE)

    def are_known_slow(self, site_id: int) -> bool:
        """Return whether requests to the site begin earlier than others."""
        return site_id in self._slowest_s

    def note(self, site_id: int, seconds: float) -> None:
        """Record how many seconds a connection to the site took to open."""
        slowest_s = max(seconds, FORGET * self._slowest_s.pop(site_id, 0.0))
        if slowest_s * SPARE > OPEN_AHEAD:
            self._slowest_s.note(site_id, slowest_s)
