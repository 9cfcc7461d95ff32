"""How many users ask, and for how long."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Size:
    """How much is measured. Seconds are those of one side."""

    users: int
    without_etag: int  # of them, so that two cores are enough
    every_s: float  # between two polls of a user
    idle_s: float  # without polls: measures what everything else costs
    side_s: float
    others_per_s: int  # notified, so that flushes have something to do
    changing_per_s: int  # of the users who ask


LONG = Size(users=1_000, without_etag=200, every_s=5, idle_s=3, side_s=6, others_per_s=20, changing_per_s=10)
