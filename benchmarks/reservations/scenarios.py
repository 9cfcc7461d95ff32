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

    @property
    def names(self) -> list[str]:
        return [f"{self.prefix}-{number}.bench".replace("_", "-") for number in range(self.sites)]


FAST = Scenario(title="One site, 200/s", prefix="reservations", sites=1, interval_s=0.005, turn_s=3.0)
SLOW = Scenario(title="20 sites, 1/s each", prefix="reservations_1_per_s", sites=20, interval_s=1.0, turn_s=5.0)
UNREFUSED = Scenario(
    title="One site, no call is refused", prefix="reservations_unrefused", sites=1, interval_s=None, turn_s=1.5
)
SCENARIOS = {scenario.prefix: scenario for scenario in (FAST, SLOW, UNREFUSED)}
