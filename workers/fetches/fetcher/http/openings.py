"""How long connections to sites take to open, and so how long before its slot a request begins to open its connection.

A fetcher learns this for each site. The first request to a slow site loses its slot, because the fetcher began to
connect too late. No attempt is counted, and the fetcher begins earlier the next time.
"""

from weir.workers.fetches.fetcher.remembered import Remembered

OPEN_AHEAD = 0.5  # seconds before its slot at which a request begins to open its connection, unless the site is slow
SPARE = 1.5  # a connection may take so many times as long to open as the slowest recent one
FORGET = 0.9  # each quicker connection multiplies the slowest time by this
MOST_SITES = 50_000  # slow sites that are remembered


class Openings:
    """The slow sites of one fetcher. On the loop's thread only."""

    def __init__(self) -> None:
        # By site: the slowest time; only of sites that need more than OPEN_AHEAD.
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
