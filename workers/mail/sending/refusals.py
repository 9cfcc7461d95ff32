"""Decides when, and about which e-mails, a relay is asked again after it has refused us.

A relay that says that it refuses us may mean this recipient, the recipient's domain, or the sender of this kind of
e-mail. Its words do not tell which; but whether it accepts other e-mails does. So others are tried before a refusal
counts as being about us:

1. If the relay did not know the recipient yet, it may mean the sender. Then other kinds of e-mails are tried.
2. Otherwise other recipients are tried. When FEW e-mails of a kind to one domain were refused, e-mails of this kind to
   this domain wait for PAUSE_S. Then twice as many may be tried, and so on. When FEW kinds and domains have met a
   refusal, all e-mails of the relay wait in the same way.
3. E-mails that were refused once are tried again one at a time, first after PAUSE_S, and then after pauses that double
   each time, up to LONGEST_PAUSE_S.
4. An accepted e-mail ends all these pauses, because the relay accepts e-mails of ours. For WORKS_FOR_S, as many may be
   refused before a pause as at that moment. But an accepted e-mail says nothing about another kind, whose sender may be
   refused.

So an e-mail that the relay accepts leaves within a minute, even behind thousands that the relay refuses. A relay that
accepts nothing is not asked about all e-mails, but in the end only once a minute.

blame.py decides what an e-mail pays for a refusal.

The threads of one process may share a Refusals. Time is an argument, in seconds of a monotonic clock.
"""

from dataclasses import dataclass, field
from threading import Lock
from typing import Final

FEW: Final = 3
PAUSE_S: Final = 5.0
LONGEST_PAUSE_S: Final = 60.0
WORKS_FOR_S: Final = 60.0  # for this time after an accepted e-mail, a refusal is probably not about us
MOST_DOMAINS: Final = 10_000  # pairs of kind and domain that are remembered; the oldest are forgotten


@dataclass(kw_only=True, slots=True)
class Budget:
    """How many e-mails may be refused before a pause: `most`, and twice as many after each pause."""

    most: int = FEW
    _left: int = field(init=False)
    _over_at: float = 0.0

    def __post_init__(self) -> None:
        self._left = self.most

    def spend(self, now: float) -> None:
        """Count a refusal."""
        self._left -= 1
        if self._left <= 0:
            self.most *= 2
            self._left = self.most
            self._over_at = now + PAUSE_S

    def pause_s(self, now: float) -> float:
        """Return how many seconds of the pause are left; 0 if there is no pause."""
        return max(0.0, self._over_at - now)


@dataclass(kw_only=True)
class Refusals:
    """What one relay has refused since it last accepted an e-mail of this process."""

    _kinds: set[str] = field(default_factory=set)  # kinds that the relay refused before it knew the recipient
    _domains: dict[tuple[str, str], Budget] = field(default_factory=dict)  # by kind and domain; the oldest first
    _budget: Budget = field(default_factory=Budget)
    _again_at: float = 0.0  # when one of the refused e-mails may be tried again
    _pause_s: float = 0.0  # the time between two tries of refused e-mails
    _begins_with: int = FEW  # the size of a new budget
    _accepted_at: float = 0.0
    said: str = ""  # the last refusal; empty if there is none
    because: str = ""  # the last refusal that seems to be about us; empty if there is none
    _lock: Lock = field(default_factory=Lock)

    def pause_s(self, now: float) -> float:
        """Return for how many seconds nothing may be tried; 0 if something may."""
        return self._budget.pause_s(now)

    def waits_s(self, kind: str, domain: str, now: float, *, is_new: bool) -> float:
        """Return for how long an e-mail of this kind to this domain is to wait, apart from `pause_s`.

        `is_new` says that the e-mail has never been tried.
        """
        with self._lock:
            if not self._kinds and not self._domains:
                return 0.0
            of_domain = self._domains.get((kind, domain))
            if is_new and kind not in self._kinds:
                return of_domain.pause_s(now) if of_domain else 0.0
            is_refused = of_domain is not None or kind in self._kinds
            return max(0.0, self._again_at - now) if is_refused else 0.0

    def enter(self, kind: str, domain: str, now: float, *, is_new: bool) -> float:
        """Return for how long the e-mail is to wait; if 0, it is tried now, and other refused e-mails wait longer."""
        if wait_s := self.pause_s(now) or self.waits_s(kind, domain, now, is_new=is_new):
            return wait_s
        with self._lock:
            if kind in self._kinds or (not is_new and (kind, domain) in self._domains):
                self._pause_s = min(LONGEST_PAUSE_S, 2 * self._pause_s)
                self._again_at = now + self._pause_s
        return 0.0

    def refused(self, kind: str, domain: str, said: str, now: float, *, is_ours: bool = True) -> None:
        """Record a refusal. `is_ours` says that it is about us.

        `domain` is empty if the relay did not know the recipient yet.
        """
        with self._lock:
            if not self.said and now - self._accepted_at > WORKS_FOR_S:
                self._begins_with, self._budget = FEW, Budget()
            self.said, self.because = said, said if is_ours else self.because
            if not self._kinds and not self._domains:
                self._pause_s = PAUSE_S
                self._again_at = now + PAUSE_S
            is_known = kind in self._kinds if not domain else (kind, domain) in self._domains
            if domain:
                budget = self._domains.setdefault((kind, domain), Budget(most=self._begins_with))
                budget.spend(now)
                self._begins_with = max(self._begins_with, budget.most)
            else:
                self._kinds.add(kind)
            if len(self._domains) > MOST_DOMAINS:
                del self._domains[next(iter(self._domains))]
            if not is_known:
                self._budget.spend(now)
                self._begins_with = max(self._begins_with, self._budget.most)

    def accepted(self, kind: str, now: float) -> bool:
        """Forget the refusals; return whether there were any, and none is left.

        Other kinds that the relay refused before it knew the recipient are kept, because they may have other senders.
        """
        with self._lock:
            self._accepted_at = now
            had_refused = bool(self.said)
            self._kinds.discard(kind)
            self._domains.clear()
            self._budget = Budget(most=self._begins_with)
            if self._kinds:
                return False
            self.said = self.because = ""
            return had_refused
