"""Refusals: a relay that says that it refuses us may mean this recipient, its domain, or the sender of this kind.

Its words do not tell which; whether it accepts others does. So others are tried before the refusal counts as about us:

1. If the relay did not know the recipient yet, it may mean the sender: other kinds of e-mails are tried.
2. Else other recipients are tried. When FEW of a kind to one domain were refused, those wait for PAUSE_S; then twice as
   many may be tried, and so on. When FEW kinds and domains have met a refusal, all e-mails of the relay wait likewise.
3. E-mails that were refused once are tried again one at a time, after PAUSE_S, and then after twice as long each time,
   up to LONGEST_PAUSE_S.
4. An e-mail that is accepted ends all that: the relay accepts e-mails of ours. For WORKS_FOR_S as many may be refused
   before a pause as at that moment. But it says nothing about another kind, whose sender may be refused.

So e-mails that a relay accepts leave within a minute, behind thousands that it does not accept. A relay that accepts
nothing is not asked about all of them together, but in the end once a minute.

This module says when, and about what, a relay is asked again. blame.py says what an e-mail pays for being refused.

Safe for the threads of one process. Time is an argument, in seconds of a monotonic clock.
"""

from dataclasses import dataclass, field
from threading import Lock
from typing import Final

FEW: Final = 3
PAUSE_S: Final = 5.0
LONGEST_PAUSE_S: Final = 60.0
WORKS_FOR_S: Final = 60.0  # after an e-mail was accepted: a refusal since then may well not be about us
MOST_DOMAINS: Final = 10_000  # that are remembered; the oldest are forgotten


@dataclass(kw_only=True, slots=True)
class Budget:
    """How many may be refused before a pause: FEW, and twice as many after each."""

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
        """Return what is left of the pause; 0 without one."""
        return max(0.0, self._over_at - now)


@dataclass(kw_only=True)
class Refusals:
    """What one relay has refused since it last accepted an e-mail of this process."""

    _kinds: set[str] = field(default_factory=set)  # refused before it knew the recipient
    _domains: dict[tuple[str, str], Budget] = field(default_factory=dict)  # by kind and domain; the oldest first
    _budget: Budget = field(default_factory=Budget)
    _again_at: float = 0.0  # when one of the refused e-mails may be tried again
    _pause_s: float = 0.0  # between two of these
    _begins_with: int = FEW  # the size of a new budget
    _accepted_at: float = 0.0
    said: str = ""  # the last refusal; empty if there is none
    because: str = ""  # the last refusal that is about us, as far as is known
    _lock: Lock = field(default_factory=Lock)

    def pause_s(self, now: float) -> float:
        """Return for how long nothing may be tried; 0 if something may."""
        return self._budget.pause_s(now)

    def waits_s(self, kind: str, domain: str, now: float, *, is_new: bool) -> float:
        """Return for how long such an e-mail is to wait, if anything may be tried; `is_new` if it never was tried."""
        with self._lock:
            if not self._kinds and not self._domains:
                return 0.0
            of_domain = self._domains.get((kind, domain))
            if is_new and kind not in self._kinds:
                return of_domain.pause_s(now) if of_domain else 0.0
            is_refused = of_domain is not None or kind in self._kinds
            return max(0.0, self._again_at - now) if is_refused else 0.0

    def enter(self, kind: str, domain: str, now: float, *, is_new: bool) -> float:
        """Return the same for an e-mail that is tried now if that is 0; then others that were refused wait on."""
        if wait_s := self.pause_s(now) or self.waits_s(kind, domain, now, is_new=is_new):
            return wait_s
        with self._lock:
            if kind in self._kinds or (not is_new and (kind, domain) in self._domains):
                self._pause_s = min(LONGEST_PAUSE_S, 2 * self._pause_s)
                self._again_at = now + self._pause_s
        return 0.0

    def refused(self, kind: str, domain: str, said: str, now: float, *, is_ours: bool = True) -> None:
        """Record a refusal; without a domain, one before the relay knew the recipient; `is_ours` if it is about us."""
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
        """Forget what was refused; return whether something was, and nothing of it is left.

        Other kinds that were refused before the relay knew the recipient are kept: they have other senders.
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
