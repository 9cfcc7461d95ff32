"""How many requests of a process may wait for their answers at once, and how they are shared among the sites."""

from collections import Counter

from django.conf import settings

# Of the fetches that a process may hold: how many may be unanswered, and how many of these by way of the sites' shares.
# The rest of them is left to first requests; the rest of all, to fetches that wait for their slots.
UNANSWERED = 0.6
SHARED = 0.4
ONE_SITE = 0.2  # the part of what other sites leave of the shared room that one site may have


class Unanswered:
    """The requests of a process that wait for their answers, by site: WEIR_FETCH_MAX_IN_FLIGHT is the number below.

    A site may have a fifth of what all others leave over of two fifths of it, and its first request as long as the sum
    is below three fifths. So the next site has room while those that hang are fewer than a fifth of it.
    """

    def __init__(self) -> None:
        self._by_site: Counter[int] = Counter()
        self._all = 0

    def has_room_for(self, site_id: int) -> bool:
        """Tell whether the site may have one more now."""
        most, own = settings.WEIR_FETCH_MAX_IN_FLIGHT, self._by_site[site_id]
        if own:
            return own < ONE_SITE * (SHARED * most - (self._all - own))
        return self._all < UNANSWERED * most

    def began(self, site_id: int) -> None:
        """Note that a request was written."""
        self._by_site[site_id] += 1
        self._all += 1

    def ended(self, site_id: int) -> None:
        """Note that a request was answered, or given up."""
        self._all -= 1
        self._by_site[site_id] -= 1
        if not self._by_site[site_id]:
            del self._by_site[site_id]
