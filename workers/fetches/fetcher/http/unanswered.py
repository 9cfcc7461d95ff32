"""How many requests of one fetcher may wait for answers at the same time, and how sites and addresses share them."""

from collections import Counter

from weir.conf import settings

# Parts of WEIR_FETCH_MAX_IN_FLIGHT, the number of fetches that a fetcher may hold:
UNANSWERED = 0.6  # for all requests that wait for their answers; the rest is for fetches that wait for their slots
SHARED = 0.4  # a site gets more than one request only within this part; the rest of UNANSWERED is for first ones
ONE_SITE = 0.2  # the part that one site may have of what the other sites leave of SHARED


class Unanswered:
    """The requests of one fetcher that wait for their answers, by site and by address.

    The first request of a site may be written while all sites together have fewer than UNANSWERED. Further requests may
    be written while the site has less than ONE_SITE of what all other sites leave of SHARED. So there is room for the
    first request of another site as long as fewer sites hang than a fifth of WEIR_FETCH_MAX_IN_FLIGHT, which is
    UNANSWERED - SHARED.

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
