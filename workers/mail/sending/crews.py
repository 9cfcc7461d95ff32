"""A crew: the senders of one stream in a round, and the source that they share.

The e-mails of a stream use the same relays. Each stream has its own claims and connections, and ends by itself. So a
relay that is slow, refuses us, or cannot be reached does not delay the kinds of another stream.
"""

import time
from collections import Counter
from collections.abc import Sequence
from functools import partial

from weir.workers.ledger.outcomes import Outcome
from weir.workers.mail.phases import EmailState
from weir.workers.mail.sending import policy, routes
from weir.workers.mail.sending.policy import Another, Situation
from weir.workers.mail.sending.sender import PATIENCE_S, Sender
from weir.workers.mail.sending.source import ClaimAllowance, Source
from weir.workers.mail.transports.base import RelayRefuses, Unreachable
from weir.workers.mail.transports.relays import MailStream, Relay

RESUMES_AFTER_S = 2.0  # when a stopped crew begins again, if its round goes on


class Crew:
    """The senders of one stream. It is not thread-safe: the lock of the round guards it."""

    def __init__(self, stream: MailStream, allowed: ClaimAllowance) -> None:
        self.relays = stream.relays
        self.source = Source(allowed, partial(routes.waits_s, stream.relays), stream.kinds)
        self.senders: list[Sender] = []
        self.ended: Counter[str] = Counter()
        self.given_back = 0
        self.stopped_because = ""
        self.is_out_of_time = False
        self._is_one_enough = False
        self._rests_until = 0.0

    def stalled(self) -> int:
        """Return how many senders have been busy with one e-mail for longer than other e-mails should wait."""
        return sum(sender.is_stalled for sender in self.senders)

    def in_hand(self) -> int:
        """Return the bytes of the e-mails that its senders transmit."""
        return sum(sender.in_hand for sender in self.senders)

    def needs_another(self, at_work: int, of_all: int) -> bool:
        """Return whether another sender is needed beside the `at_work` senders; all crews together have `of_all`."""
        situation = Situation(
            senders=at_work,
            of_all=of_all,
            stalled=self.stalled(),
            are_many=self.source.are_many,
            has_ended=bool(self.ended),
            is_one_enough=self._is_one_enough,
            is_stopped=bool(self.stopped_because),
            in_hand=self.in_hand(),
        )
        another = policy.another_sender(situation)
        return another == Another.YES or (another == Another.IF_ANY_IS_DUE and self.source.has_next())

    def begins(self) -> bool:
        """Return whether the crew can begin: an e-mail is due, and a relay may be tried. If not, the crew rests."""
        if wait_s := routes.open_for_s(self.relays):
            self.stopped_because = (
                f"{_names(self.relays)} could not be reached lately, or refused us: again in {wait_s:.0f} s."
            )
        elif self.source.has_next():
            self.stopped_because = ""
            return True
        self.rests()
        return False

    def rests(self) -> None:
        """Let the crew look for e-mails again later, if other crews keep the round going."""
        self._rests_until = time.monotonic() + (RESUMES_AFTER_S if self.stopped_because else PATIENCE_S)

    def is_rested(self) -> bool:
        """Return whether the crew has rested for long enough."""
        return time.monotonic() >= self._rests_until

    def count(self, outcome: Outcome) -> None:
        """Count what became of an e-mail."""
        if outcome.state == EmailState.PENDING and not outcome.attempts:
            self.given_back += 1
        else:
            self.ended[outcome.state] += 1

    def goes_on_without(self, sender: Sender) -> bool:
        """Return whether other senders can go on: some servers refuse a further connection, and allow only one."""
        self._is_one_enough = True
        return any(not other.is_stalled for other in self.senders if other is not sender)

    def why_stopped(self) -> str:
        """Return why the crew has left due e-mails untried; an empty string if it has not."""
        said = "" if self.ended[EmailState.SENT.value] else routes.all_refuse_because(self.relays)
        return self.stopped_because or (said and in_words(self.relays, RelayRefuses(said)))


def in_words(relays: Sequence[Relay], error: Unreachable) -> str:
    """Return a sentence that says why the e-mails of a stream are not tried any further."""
    if isinstance(error, (RelayRefuses, routes.RefusedLately)):
        return f"{_names(relays)} refuses us, or what is due: {error}"
    return f"{_names(relays)} cannot be reached ({error}): check the EMAIL_* settings and WEIR_MAIL_RELAYS."


def _names(relays: Sequence[Relay]) -> str:
    names = " and ".join(relay.name for relay in relays)
    return f"The mail server {names}" if len(relays) == 1 else f"None of the relays {names}"
