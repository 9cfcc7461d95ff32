"""The arithmetic of one run of slots, in the process that holds it: pure, time as an argument.

A *run* is what one reservation grants: n slots of one site. Until `use_until` the site belongs to the run's holder,
who keeps the site's interval between its own actual starts; the next run begins an interval after `use_until`. So the
interval holds across processes without their clocks ever being compared, and a holder that fell behind early in a
run may still use the rest of it, as long as it ends in time.

A run can be *recalled*: the site is paused or backed off, or its rate is changed. Nobody can reach into a process that
holds one, so it is the other way round: a holder starts nothing unless it has asked the database within the last
`CONFIRMED_FOR_S` whether its slots still stand. Half a second after a recall is committed, no recalled slot is used any
more, whatever happened to its holder (the idea is that of a lease: Gray and Cheriton, 1989).
"""

from dataclasses import dataclass

NEVER = float("-inf")
# Seconds before the end of a run that are not used: a process may lose its processor between looking at the clock and
# writing, and what is written then must still be in time.
HAND_OVER_MARGIN_S = 0.010
CONFIRMED_FOR_S = 0.5  # seconds for which the database's word that a slot stands is good


@dataclass(kw_only=True, slots=True)
class Confirmation:
    """When the database was last asked whether certain slots still stand; shared by all runs that it was asked for."""

    asked_at: float  # seconds on the holder's monotonic clock, before the question was sent

    def is_good_at(self, now: float) -> bool:
        """Tell whether the answer can still be relied on, and what is done now will be done before it cannot."""
        return now + HAND_OVER_MARGIN_S <= self.asked_at + CONFIRMED_FOR_S


@dataclass(kw_only=True, slots=True)
class Run:
    """The holder's side of GCRA (the generic cell rate algorithm, ITU-T I.371) for one run.

    All times are seconds on the holder's monotonic clock. Not thread-safe: one run, one thread.
    """

    interval_s: float
    burst: int
    start_until: float  # no start is later; with a burst this may be long before `use_until`
    use_until: float
    confirmation: Confirmation
    _theoretical_arrival: float = NEVER

    def ready_at(self, start_at: float) -> float:
        """Return the earliest moment for the slot planned at `start_at`, given the starts made so far."""
        return max(start_at, self._theoretical_arrival - (self.burst - 1) * self.interval_s)

    def is_over(self, now: float) -> bool:
        """Tell whether a start now would not leave the site to the next run in time."""
        return now + HAND_OVER_MARGIN_S > self.start_until or self._theoretical_arrival > self.use_until

    def may_start(self, now: float) -> bool:
        """Tell whether the site is still the holder's, and known to be."""
        return not self.is_over(now) and self.confirmation.is_good_at(now)

    def started(self, at: float) -> None:
        """Note a start. `at` must not lie before the actual one: read the clock after writing."""
        self._theoretical_arrival = max(at, self._theoretical_arrival) + self.interval_s
