"""How many tabs there are, and for how long they are open."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Size:
    """How much is measured. Seconds are those of one turn."""

    tabs: int
    rounds: int
    calm_s: float
    sites: int
    paced_s: float
    warm_up_s: float


LONG = Size(tabs=50, rounds=2, calm_s=60, sites=50, paced_s=30, warm_up_s=5)
