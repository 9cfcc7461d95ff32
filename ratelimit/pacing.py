"""The arithmetic of one run of slots, in the process that holds it: pure, time as an argument.

A *run* is what one reservation grants: n slots of one site. Until `use_until` the site belongs to the run's holder,
which keeps the site's interval between its own starts. The next run begins an interval after `use_until`. So the
interval holds across processes, and no two clocks are compared. A holder that starts some slots late may still use the
others until `use_until`.

A run is *recalled* when the site is paused or backed off, or its rate is changed. No process can interrupt the holder.
Instead, a holder starts nothing unless it has asked the database within the last `CONFIRMED_FOR_S` whether its slots
still stand. Half a second after a recall is committed, no recalled slot is used any more, whatever state its holder is
in. This is a lease (Gray and Cheriton, 1989).
"""

from dataclasses import dataclass

from weir.ratelimit import gcra

NEVER = float("-inf")
# Seconds before the end of a run that are not used: a process may be suspended between reading the clock and writing to
# the socket, and must still be in time.
HAND_OVER_MARGIN_S = 0.010
GRACE_SHARE = 0.04  # the part of a run that its hand-over may cost
CONFIRMED_FOR_S = 0.5  # seconds for which a holder may rely on the answer that a slot stands


@dataclass(kw_only=True, slots=True)
class Confirmation:
    """When the database was last asked whether slots still stand; all runs that one question covers share it."""

    asked_at: float  # seconds on the holder's clock (clock.py), before the question was sent

    def is_good_at(self, now: float) -> bool:
        """Return whether the answer can be relied on for a start made now."""
        return now + HAND_OVER_MARGIN_S <= self.good_until

    @property
    def good_until(self) -> float:
        """Return until when the answer can be relied on: a recall takes effect no sooner."""
        return self.asked_at + CONFIRMED_FOR_S


@dataclass(kw_only=True, slots=True)
class Run:
    """The holder's side of GCRA (gcra.py) for one run.

    All times are seconds on the holder's clock (clock.py). Not thread-safe: one run, one thread.
    """

    interval_s: float
    burst: int
    start_until: float  # no start is later; with a burst this may be long before `use_until`
    use_until: float
    confirmation: Confirmation
    _theoretical_arrival: float = NEVER

    def ready_at(self, start_at: float) -> float:
        """Return the earliest moment for the slot planned at `start_at`, given the starts made so far."""
        return max(start_at, self._theoretical_arrival - gcra.tolerance_s(self.burst, self.interval_s))

    def is_over(self, now: float) -> bool:
        """Return whether a start made now would come too late: the next run relies on a distance from `use_until`."""
        return now + HAND_OVER_MARGIN_S > self.start_until or self._theoretical_arrival > self.use_until

    def may_start(self, now: float) -> bool:
        """Return whether the run is not over, and was confirmed lately."""
        return not self.is_over(now) and self.confirmation.is_good_at(now)

    def started(self, at: float) -> None:
        """Record a start. `at` must not lie before the actual one: read the clock after writing."""
        self._theoretical_arrival = max(at, self._theoretical_arrival) + self.interval_s

    def out_of_time_s(self, at: float) -> float:
        """Return by how many seconds a start that was made at `at` was out of its time; 0 if it was in its time.

        A process may be stopped between `may_start` and its write, for longer than HAND_OVER_MARGIN_S. After the end of
        the run, or of its confirmation, the site may belong to another holder, which does not know of this start.
        Before that, this run alone decides, and keeps the interval after a start, however late it was. Call this with
        the clock as it was read directly after the write, before the run is confirmed anew.
        """
        return max(0.0, at - min(self.start_until, self.confirmation.good_until))
