"""Decides whether an e-mail is to blame if a relay refuses it for good, and its reply does not say whom it refuses.

Whether the relay accepts other e-mails decides. So the relay is asked about a refused e-mail again, later:

1. If the e-mail is refused again although the relay has accepted another e-mail since, the e-mail is to blame.
2. But it is not to blame if FEW e-mails in a row were refused, then or now. A relay that refuses everything for a
   while, and accepts some e-mails in between, such as one with an hourly limit, does not mean any of them. Such a
   refusal costs an attempt, and no more.
3. While FEW e-mails in a row were refused, and none was accepted since, no e-mail pays: the relay refuses us.
4. An e-mail that is refused alone, while nothing else is tried, pays an attempt each time, so that the relay is not
   asked about it for ever.

If the reply says that the relay refuses us, only one rule holds: the second refusal of an e-mail costs an attempt if
the relay has accepted others since the first.

This module decides what an e-mail pays, and remembers e-mails. refusals.py decides when a relay is asked again, and
which e-mails wait until then, and remembers kinds and domains. Neither decision follows from the other.

The threads of a process may share a Suspects. Another process does not know it, and asks the relay once more.
"""

from dataclasses import dataclass, field
from datetime import datetime
from enum import IntEnum
from threading import Lock

from weir.workers.mail.sending.refusals import FEW

MOST_REMEMBERED = 10_000  # e-mails; the oldest are forgotten, and the relay is asked about them once more


class Blame(IntEnum):
    """What an e-mail pays for a refusal."""

    NOBODY = 0  # nothing: the e-mail is tried again
    PERHAPS = 1  # an attempt
    EMAIL = 2  # the e-mail fails for good


@dataclass(kw_only=True)
class Suspects:
    """The e-mails of this process that one relay has refused, and when the relay last accepted an e-mail.

    Two dictionaries have, for each e-mail, how many e-mails the relay had accepted at a certain moment. If it has
    accepted more by now, it has accepted others since that moment.
    """

    accepted_at: datetime | None = None  # when the relay last accepted an e-mail
    _accepted: int = 0  # how many e-mails the relay has accepted until now
    _at_last_refusal: dict[int, int] = field(default_factory=dict)  # the oldest refusal first
    _at_first_doubt: dict[int, int] = field(default_factory=dict)  # only of doubtful refusals, not among FEW in a row
    _in_a_row: set[int] = field(default_factory=set)  # e-mails refused since the last acceptance, FEW at most
    _lock: Lock = field(default_factory=Lock)

    def refused(self, email: int, *, is_doubtful: bool, was_due_before: bool) -> Blame:
        """Record that the e-mail was refused; return what it pays.

        `is_doubtful` says that the reply does not tell whom the relay refuses. `was_due_before` says that the e-mail
        was refused before, and was due again before the relay last accepted an e-mail. The e-mail's row shows that,
        even if another process met the earlier refusal.
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
        """Return whether this e-mail may be to blame: it met a doubtful refusal that was not among FEW in a row."""
        with self._lock:
            return email in self._at_first_doubt

    def forget(self, email: int) -> None:
        """Forget that an e-mail may be to blame, because all its attempts are ahead of it again."""
        with self._lock:
            self._at_first_doubt.pop(email, None)

    def accepted(self, now: datetime) -> None:
        """Record that the relay has accepted an e-mail."""
        with self._lock:
            self.accepted_at = now
            self._accepted += 1
            self._in_a_row.clear()
