"""Blame: whether a relay that refuses an e-mail for good means this one, if its reply does not say.

Whether the relay accepts others decides. So the relay is asked about a refused e-mail again, later:

1. If it is refused again although the relay has accepted another since, it is to blame.
2. But not if FEW e-mails in a row were refused, then or now. A relay that refuses all for a while, and accepts some in
   between, such as one with an hourly limit, means none of them. That costs an attempt, and no more.
3. While FEW in a row were refused and none was accepted since, no e-mail pays for it: the relay refuses us.
4. An e-mail that is refused alone, while nothing else is tried, pays an attempt each time, so it is not asked about for
   ever.

For a reply that says that it means us, one rule holds: if the relay has accepted others since, it costs an attempt.

This module says what an e-mail pays, and remembers e-mails. refusals.py says when a relay is asked again, and which
e-mails wait until then; it remembers kinds and domains. Neither follows from the other.

Safe for the threads of one process. Another process asks once more.
"""

from dataclasses import dataclass, field
from datetime import datetime
from enum import IntEnum
from threading import Lock

from weir.workers.mail.sending.refusals import FEW

MOST_REMEMBERED = 10_000  # e-mails; the oldest are forgotten, and asked about once more


class Blame(IntEnum):
    """What an e-mail pays for a refusal."""

    NOBODY = 0  # nothing: it is tried again
    PERHAPS = 1  # an attempt
    EMAIL = 2  # it fails for good


@dataclass(kw_only=True)
class Suspects:
    """The e-mails of this process that one relay has refused, and when it accepted one.

    For each e-mail there are two counts of what the relay had accepted at a moment: has it accepted more since?
    """

    accepted_at: datetime | None = None  # the last one
    _accepted: int = 0  # e-mails, until now
    _at_last_refusal: dict[int, int] = field(default_factory=dict)  # the oldest refusal first
    _at_first_doubt: dict[int, int] = field(default_factory=dict)  # at a doubtful refusal, not among FEW in a row
    _in_a_row: set[int] = field(default_factory=set)  # refused since one was accepted, up to FEW
    _lock: Lock = field(default_factory=Lock)

    def refused(self, email: int, *, is_doubtful: bool, was_due_before: bool) -> Blame:
        """Record that the e-mail was refused; return what it pays.

        `is_doubtful` if the reply does not say whom it means; `was_due_before` if the e-mail was refused once, and was
        due again before the relay accepted its last one. That is known even if another process was refused.
        """
        with self._lock:
            was_taken_since = self._at_last_refusal.pop(email, self._accepted) < self._accepted
            is_second = self._at_first_doubt.get(email, self._accepted) < self._accepted
            self._at_last_refusal[email] = self._accepted
            if len(self._in_a_row) < FEW:
                self._in_a_row.add(email)
            are_all_refused = len(self._in_a_row) >= FEW
            if are_all_refused:
                for each in (*self._in_a_row, email):
                    self._at_first_doubt.pop(each, None)
            elif is_doubtful:
                self._at_first_doubt.setdefault(email, self._accepted)
            if len(self._at_last_refusal) > MOST_REMEMBERED:
                oldest = next(iter(self._at_last_refusal))
                del self._at_last_refusal[oldest]
                self._at_first_doubt.pop(oldest, None)
            if is_doubtful and is_second and not are_all_refused:
                return Blame.EMAIL
            is_alone = is_doubtful and not are_all_refused
            return Blame.PERHAPS if was_taken_since or was_due_before or is_alone else Blame.NOBODY

    def has(self, email: int) -> bool:
        """Return whether this e-mail may be to blame: its refusal did not say whom it means, and not all had one."""
        with self._lock:
            return email in self._at_first_doubt

    def forget(self, email: int) -> None:
        """Clear the suspicion of an e-mail that has all its attempts ahead of it."""
        with self._lock:
            self._at_first_doubt.pop(email, None)

    def accepted(self, now: datetime) -> None:
        """Record that the relay has accepted an e-mail."""
        with self._lock:
            self.accepted_at = now
            self._accepted += 1
            self._in_a_row.clear()
