"""How large the installation is."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Size:
    """How many rows there are of everything, and how often a page is asked for."""

    sites: int
    queued: int
    queued_at_first_site: int  # of these
    held: int
    ended: int  # in the last 30 days, more of them lately
    batches: int  # with half of the fetches; every other batch has ended
    slots: int  # of the last hour
    users: int  # with a number of unread notifications
    emails: int
    unknown: int  # of these
    minutes: int  # of the history
    busiest: int  # sites in each minute
    requests: int  # of each page
    cold: int  # requests of each page without a snapshot


LARGE = Size(
    sites=100_000,
    queued=1_000_000,
    queued_at_first_site=100_000,
    held=2_000,
    ended=5_000_000,
    batches=10_000,
    slots=1_800_000,
    users=1_000_000,
    emails=1_000_000,
    unknown=3_000,
    minutes=7 * 24 * 60,
    busiest=200,
    requests=50,
    cold=5,
)
