"""How large a turn is: a small one shows the same in a test."""

from dataclasses import dataclass

RATE, INTERVAL_S = "5/s", 0.2  # of each site


@dataclass(frozen=True, kw_only=True)
class Size:
    """How much there is to do, and how often it is disturbed."""

    kills: int
    kill_every_s: float  # on the average
    sites: int
    users: range
    users_at_once: int  # that a notification goes to
    settle_s: float  # at most, after the load, until e-mails that did not come are missing


FULL = Size(kills=10, kill_every_s=3.0, sites=8, users=range(1, 1_001), users_at_once=50, settle_s=90.0)
