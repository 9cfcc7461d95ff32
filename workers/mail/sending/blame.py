"""Blame: whether a relay that refuses an e-mail for good means this one, where its reply does not tell.

What tells is whether the relay takes others. So an e-mail that was refused is asked about again, later:

1. When it is refused again although the relay has accepted another since, it is to blame.
2. But not when FEW e-mails in a row were refused, then or now: a relay that refuses all for a while, and takes some in
   between, such as one whose limit is by the hour, means none of them. That costs an attempt, and no more.
3. While FEW in a row were refused and none was accepted since, nobody pays for it: the relay refuses us.
4. An e-mail that is refused alone, while nothing else is tried, pays an attempt each time, so it is not asked about for
   ever.

Of a reply that says that we are meant, only this is true: when the relay has accepted others since, it is an attempt.

This module says what an e-mail pays, and remembers e-mails. When a relay is asked again, and which e-mails wait until
then, says refusals.py, which remembers kinds and domains. Neither follows from the other.

For the threads of one process, which may call at once. Another process asks once more.
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

    By e-mail there are two numbers, each of what the relay had accepted at a moment: has it accepted more since?
    """

    accepted_at: datetime | None = None  # the last one
    _accepted: int = 0  # e-mails, until now
    _at_last_refusal: dict[int, int] = field(default_factory=dict)  # the oldest refusal first
    _at_first_doubt: dict[int, int] = field(default_factory=dict)  # at a doubtful refusal, not among FEW in a row
    _in_a_row: set[int] = field(default_factory=set)  # refused since one was accepted, up to FEW
    _lock: Lock = field(default_factory=Lock)

    def refused(self, email: int, *, is_doubtful: bool, was_due_before: bool) -> Blame:
        """Note that it was refused; return what it pays.

        `is_doubtful` if the reply names nobody, `was_due_before` if the e-mail was refused once, and was due again
        before the relay accepted its last one: that is known also of what another process was refused.
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
        """Tell whether this e-mail may be to blame: it was refused in words that name nobody, and not as all were."""
        with self._lock:
            return email in self._at_first_doubt

    def forget(self, email: int) -> None:
        """Know nothing of an e-mail that has all attempts ahead of it."""
        with self._lock:
            self._at_first_doubt.pop(email, None)

    def accepted(self, now: datetime) -> None:
        """Note that the relay has accepted an e-mail."""
        with self._lock:
            self.accepted_at = now
            self._accepted += 1
            self._in_a_row.clear()
