"""The arithmetic of one run of slots, in the process that holds it: pure, time as an argument.

A *run* is what one reservation grants: n slots of one lane. Until `use_until` the lane belongs to the run's holder,
who keeps the site's interval between its own actual starts; the next run begins an interval after `use_until`. So the
interval holds across processes without their clocks ever being compared, and a holder that fell behind early in a
run may still use the rest of it, as long as it ends in time.
"""

from dataclasses import dataclass

NEVER = float("-inf")
# Seconds before the end of a run that are not used: a process may lose its processor between looking at the clock and
# writing, and what is written then must still be in time.
HAND_OVER_MARGIN_S = 0.005


@dataclass(kw_only=True, slots=True)
class Run:
    """The holder's side of GCRA (the generic cell rate algorithm, ITU-T I.371) for one run.

    All times are seconds on the holder's monotonic clock. Not thread-safe: one run, one thread.
    """

    interval_s: float
    burst: int
    use_until: float
    _theoretical_arrival: float = NEVER

    def ready_at(self, start_at: float) -> float:
        """Return the earliest moment for the slot planned at `start_at`, given the starts made so far."""
        return max(start_at, self._theoretical_arrival - (self.burst - 1) * self.interval_s)

    def may_start(self, now: float) -> bool:
        """Tell whether a start now leaves the lane to the next run in time."""
        return max(now + HAND_OVER_MARGIN_S, self._theoretical_arrival) <= self.use_until

    def started(self, at: float) -> None:
        """Note a start. `at` must not lie before the actual one: read the clock after writing."""
        self._theoretical_arrival = max(at, self._theoretical_arrival) + self.interval_s
