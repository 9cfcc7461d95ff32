"""Defines what a sender needs of a relay (a mail server, a provider's HTTP API), and how an attempt can end."""

from collections.abc import Callable
from datetime import timedelta
from typing import NamedTuple, Protocol

from weir.workers.mail.message import Message
from weir.workers.mail.phases import Phase


class Accepted(NamedTuple):
    """The relay has accepted the e-mail."""

    reply: str  # what the relay said
    provider_id: str = ""  # the id that the provider gave to the e-mail, if any: it answers questions about this id


class Unreachable(Exception):
    """The relay cannot be reached, or does not let us in. No transmission was begun, and no e-mail is to blame."""


class RelayRefuses(Unreachable):
    """The relay answers, and refuses us whatever the e-mail is: our login, our sender, our address or our rate.

    All e-mails wait, for `retry_after_s` seconds at least. But if the relay had been told the sender (`knows_sender`),
    or also the recipient (`knows_recipient`), it may accept other e-mails. In that case it refuses this sender or this
    recipient, whatever it says. If the relay refuses for good, and does not say whom (`is_doubtful`), it may refuse
    this e-mail only.
    """

    def __init__(
        self,
        reply: str,
        retry_after_s: float = 0.0,
        *,
        knows_sender: bool = False,
        knows_recipient: bool = False,
        is_doubtful: bool = False,
    ) -> None:
        super().__init__(reply)
        self.is_doubtful = is_doubtful
        self.retry_after_s = retry_after_s
        self.knows_sender = knows_sender or knows_recipient
        self.knows_recipient = knows_recipient


class Refused(Exception):
    """The relay refused this e-mail, which was certainly not accepted."""

    def __init__(
        self, reply: str, phase: Phase, *, is_permanent: bool, slows_domain: bool = False, at_least_s: float = 0.0
    ) -> None:
        super().__init__(reply)
        self.at_least_s = at_least_s  # how long to wait before the e-mail is tried again, if it is
        self.is_permanent = is_permanent
        self.phase = phase
        self.slows_domain = slows_domain  # the recipient's domain takes no more for now, whatever the e-mail


class CannotTake(Exception):
    """The relay has said in advance that it cannot take the e-mail. It was not accepted; another relay may take it."""


class BrokenOff(Exception):
    """The attempt broke off before the relay could accept the e-mail, which was certainly not accepted."""

    def __init__(self, reason: str, phase: Phase) -> None:
        super().__init__(reason)
        self.phase = phase


class OutcomeUnknown(Exception):
    """The e-mail may have been accepted: everything was transmitted, or the transport cannot tell."""

    def __init__(self, reason: str, phase: Phase) -> None:
        super().__init__(reason)
        self.phase = phase


class Transport(Protocol):
    """A connection to a relay. For one thread."""

    key_lifetime: timedelta | None
    """For how long a second submission with the same `Message.idempotency_key` has no second effect and is answered as
    the first; None where each submission counts. Inside of it, asking again settles what became of an e-mail."""

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection, as far as the transport knows."""

    def connect(self) -> None:
        """Connect and log in. Raises Unreachable."""

    def close(self) -> None:
        """Close the connection, whatever state it is in. Raises nothing."""

    def submit(self, message: Message, begin: Callable[[], None]) -> Accepted:
        """Submit one e-mail.

        Calls `begin` once, right before the first step after which the e-mail might be accepted. If `begin` raises an
        error, the e-mail must not be transmitted. Raises Unreachable before `begin`, or if the relay said for certain
        that it has not accepted the e-mail. Raises Refused, BrokenOff and OutcomeUnknown with the meanings above. After
        each of these errors the connection is closed, except after Refused, and after a RelayRefuses with
        `knows_recipient`.
        """
