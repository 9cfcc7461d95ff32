"""Collects what the relays said that were tried for one e-mail, and decides what follows if none has taken it."""

import random
from dataclasses import dataclass

from weir.logs.loggers import get_logger
from weir.workers.mail.phases import Phase
from weir.workers.mail.sending.blame import Blame
from weir.workers.mail.sending.refusals import LONGEST_PAUSE_S
from weir.workers.mail.sending.routes import NotLately, RefusedLately, Route
from weir.workers.mail.transports.base import Refused, RelayRefuses, Unreachable

log = get_logger(__name__)


@dataclass(kw_only=True, slots=True)
class Tried:
    """What the relays that were tried for one e-mail have said."""

    failure: Unreachable | None = None  # the error of the last relay that could not be used
    blame: Blame = Blame.EMAIL  # the least blame that any relay puts on the e-mail
    is_suspect: bool = False  # whether a relay blames the e-mail
    was_asked: bool = False  # whether a relay was asked to take the e-mail
    goes_on: bool = False  # whether a relay may take other e-mails
    cannot: str = ""  # why a relay cannot take the e-mail

    def note(self, route: Route, error: Unreachable) -> None:
        """Record that this relay has not taken the e-mail, and whether the relay may take other e-mails."""
        self.failure = error
        self.blame = min(self.blame, route.blame)
        self.is_suspect = self.is_suspect or route.blame > Blame.NOBODY
        self.goes_on = self.goes_on or route.may_take_others(error)
        if not isinstance(error, (NotLately, RefusedLately)):
            log.warning("relay_unreachable", relay=route.relay.name, error=str(error))

    @property
    def stops_because(self) -> Unreachable | None:
        """Why no other e-mail is to be tried either; None if other e-mails may be tried."""
        return None if self.goes_on else self.failure

    @property
    def wait_s(self) -> float:
        """For how long the e-mail waits. A suspect waits longer, or a relay would be asked about it each second."""
        return LONGEST_PAUSE_S if self.is_suspect else 1.0


def refusal_of_it(error: Unreachable, phase: Phase, blame: Blame) -> Refused:
    """Return the refusal of us as a refusal of the e-mail: for good if the e-mail is to blame, else for now.

    If the reply does not say whom the relay refuses, the relay is asked again only after a while.
    """
    is_doubtful = isinstance(error, RelayRefuses) and error.is_doubtful
    wait_s = LONGEST_PAUSE_S * (1 + random.random()) if is_doubtful else 0.0  # noqa: S311  spreads, protects nothing
    return Refused(str(error), phase, is_permanent=blame == Blame.EMAIL, at_least_s=wait_s)
