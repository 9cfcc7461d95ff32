"""The lease: for how long after its slot a fetcher may hold a fetch, and how much of that each step has."""

from weir.conf import settings

# Seconds beyond all deadlines of a fetch before its holder counts as dead: time for storing the result.
STORING = 10.0


def longest_hold_s() -> float:
    """Return how many seconds after its slot a fetcher may still hold a fetch: all deadlines, and storing."""
    return longest_answer_s() + STORING


def longest_answer_s() -> float:
    """Return how many seconds after its slot the answer to a fetch has to be there, to be stored in time."""
    deadlines = (
        settings.WEIR_FETCH_DNS_TIMEOUT,
        settings.WEIR_FETCH_CONNECT_TIMEOUT,
        settings.WEIR_FETCH_TIMEOUT,
    )
    return float(sum(deadlines))
