"""How many requests of one fetcher may wait for answers at the same time, and how sites and addresses share them."""

from collections import Counter

from weir.conf import settings

# Parts of WEIR_FETCH_MAX_IN_FLIGHT, the number of fetches that a fetcher may hold:
UNANSWERED = 0.6  # may be requests that wait for their answers; the rest is left to fetches that wait for their slots
SHARED = 0.4  # of these may be sites' second and further requests; the rest is left to first ones
ONE_SITE = 0.2  # the part that one site may have of what the other sites leave of SHARED


class Unanswered:
    """The requests of one fetcher that wait for their answers, by site and by address.

    A site may have ONE_SITE of what all other sites leave of SHARED, and its first request as long as the sum is below
    UNANSWERED. So there is room for a first request at the next site while fewer sites hang than UNANSWERED - SHARED
    of WEIR_FETCH_MAX_IN_FLIGHT, a fifth of it.

    Many sites may share one address. It has WEIR_FETCH_MAX_PER_ADDRESS requests at most, whatever the sites' rates.
    """

    def __init__(self) -> None:
        self._by_site: Counter[int] = Counter()
        self._by_address: Counter[str] = Counter()
        self._all = 0

    def has_room_for(self, site_id: int, address: str) -> bool:
        if self._by_address[address] >= settings.WEIR_FETCH_MAX_PER_ADDRESS:
            return False
        most, own = settings.WEIR_FETCH_MAX_IN_FLIGHT, self._by_site[site_id]
        if own:
            return own < ONE_SITE * (SHARED * most - (self._all - own))
        return self._all < UNANSWERED * most

    def began(self, site_id: int, address: str) -> None:
        """Record that a request was written."""
        self._by_site[site_id] += 1
        self._by_address[address] += 1
        self._all += 1

    def ended(self, site_id: int, address: str) -> None:
        """Record that a request was answered, or given up."""
        self._all -= 1
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]
        self._by_site[site_id] -= 1
        if not self._by_site[site_id]:
            del self._by_site[site_id]
