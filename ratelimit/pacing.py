"""The arithmetic of one run of slots, in the process that holds the run. Pure: the time is an argument.

A *run* is what one reservation grants: n slots of one site. Until `use_until` the site belongs to the run's holder,
which keeps the site's interval between its own starts. The next run begins an interval after `use_until`. So the
interval holds across processes, although the clocks of two hosts are never compared. A holder that uses some of its
slots late may still use the others until `use_until`.

A run is *recalled* when the site is paused or backed off, or its rate is changed. No process can interrupt the holder.
Instead, a holder starts nothing unless it has asked the database within the last `CONFIRMED_FOR_S` whether its slots
still stand. Half a second after a recall is committed, no recalled slot is used any more, whatever state its holder is
in. This is a lease (Gray and Cheriton, 1989).
"""

from dataclasses import dataclass

from weir.ratelimit import gcra

NEVER = float("-inf")
# Seconds at the end of a run in which nothing is started: a process that is suspended so long between reading the clock
# and writing to the socket is still in time.
HAND_OVER_MARGIN_S = 0.010
GRACE_SHARE = 0.04  # the part of a run that may be lost when the site passes to another holder
CONFIRMED_FOR_S = 0.5  # seconds for which a holder may rely on the answer that a slot stands


@dataclass(kw_only=True, slots=True)
class Confirmation:
    """When the database was last asked whether slots still stand. All runs of one question share its Confirmation."""

    asked_at: float  # seconds on the holder's clock (clock.py), before the question was sent

    def is_good_at(self, now: float) -> bool:
        """Return whether the answer can be relied on for a start made now."""
        return now + HAND_OVER_MARGIN_S <= self.good_until

    @property
    def good_until(self) -> float:
        """Return until when the answer can be relied on: a recall that it does not know of takes effect later."""
        return self.asked_at + CONFIRMED_FOR_S


@dataclass(kw_only=True, slots=True)
class Run:
    """The holder's side of GCRA (gcra.py) for one run.

    All times are seconds on the holder's clock (clock.py). Not thread-safe: one run, one thread.
    """

    interval_s: float
    burst: int
    start_until: float  # the end of the time for starts; with a burst this may be long before `use_until`
    use_until: float
    confirmation: Confirmation
    _theoretical_arrival: float = NEVER

    def ready_at(self, start_at: float) -> float:
        """Return the earliest moment at which the slot planned for `start_at` may start, after the starts so far."""
        return max(start_at, self._theoretical_arrival - gcra.tolerance_s(self.burst, self.interval_s))

    def is_over(self, now: float) -> bool:
        """Return whether a start made now would come too late: the next run begins an interval after `use_until`."""
        return now + HAND_OVER_MARGIN_S > self.start_until or self._theoretical_arrival > self.use_until

    def may_start(self, now: float) -> bool:
        """Return whether the run is not over, and its confirmation can be relied on."""
        return not self.is_over(now) and self.confirmation.is_good_at(now)

    def started(self, at: float) -> None:
        """Record a start. `at` must not lie before the actual start: read the clock after writing."""
        self._theoretical_arrival = max(at, self._theoretical_arrival) + self.interval_s

    def out_of_time_s(self, at: float) -> float:
        """Return by how many seconds a start that was made at `at` was out of its time; 0 if it was in its time.

        A process may be stopped between `may_start` and its write, for longer than HAND_OVER_MARGIN_S. After the end of
        the run, or of its confirmation, the site may belong to another holder, which does not know of this start.
        Until then only this run grants starts at the site, and it keeps the interval after a late start, too. Pass the
        time that was read directly after the write, and call this before the run is confirmed anew.
        """
        return max(0.0, at - min(self.start_until, self.confirmation.good_until))
