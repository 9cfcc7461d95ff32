"""The scenarios: how many sites, each with an interval that two starts must keep."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """The number of sites, their interval (None: no call is refused), and the length of a turn."""

    title: str
    prefix: str  # of the figures' names
    sites: int
    interval_s: float | None
    turn_s: float
    warm_up_s: float = 0.0  # starts in this first part of a turn count for violations, and not for the rate
    default_grace: bool = False

    @property
    def names(self) -> list[str]:
        return [f"{self.prefix}-{number}.bench".replace("_", "-") for number in range(self.sites)]


FAST = Scenario(title="One site, 200/s", prefix="reservations", sites=1, interval_s=0.005, turn_s=3.0)
SLOW = Scenario(title="20 sites, 1/s each", prefix="reservations_1_per_s", sites=20, interval_s=1.0, turn_s=5.0)
UNREFUSED = Scenario(
    title="One site, no call is refused", prefix="reservations_unrefused", sites=1, interval_s=None, turn_s=1.5
)
# What callers of `throttle` and of throttled-py get: single starts, asked for one after the other; Weir's with the
# default grace of a site.
SPEEDS = tuple(
    Scenario(
        title=f"Single starts, one site, {per_s}/s",
        prefix=f"throttle_{per_s}_per_s",
        sites=1,
        interval_s=1 / per_s,
        turn_s=18.0,
        warm_up_s=8.0,
        default_grace=True,
    )
    for per_s in (10, 200, 1_000)
)
SCENARIOS = {scenario.prefix: scenario for scenario in (FAST, SLOW, UNREFUSED, *SPEEDS)}
