"""What is asked of every limiter: so many lanes, each with an interval that two starts shall never undercut."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """Lanes, their interval (None: nobody is ever refused), and for how long a turn asks."""

    title: str
    prefix: str  # of the figures' names
    lanes: int
    interval_s: float | None
    turn_s: float

    @property
    def names(self) -> list[str]:
        """Return the lanes' names."""
        return [f"{self.prefix}-{number}.bench".replace("_", "-") for number in range(self.lanes)]


FAST = Scenario(title="One lane, 200/s", prefix="reservations", lanes=1, interval_s=0.005, turn_s=3.0)
SLOW = Scenario(title="20 lanes, 1/s each", prefix="reservations_1_per_s", lanes=20, interval_s=1.0, turn_s=5.0)
UNREFUSED = Scenario(
    title="One lane on which nobody is refused", prefix="reservations_unrefused", lanes=1, interval_s=None, turn_s=1.5
)
SCENARIOS = {scenario.prefix: scenario for scenario in (FAST, SLOW, UNREFUSED)}
