"""What the relays said that were tried for one e-mail, if none has taken it."""

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
    """The results of the relays, one after the other."""

    failure: Unreachable | None = None  # of the last one that could not be used
    blame: Blame = Blame.EMAIL  # the least that any of them blames the e-mail
    is_suspect: bool = False  # one of them blames the e-mail
    was_asked: bool = False
    goes_on: bool = False  # one of them may take other e-mails
    cannot: str = ""  # why one of them cannot take the e-mail

    def note(self, route: Route, error: Unreachable) -> None:
        """Record that this relay has not taken the e-mail, and whether it may take others."""
        self.failure = error
        self.blame = min(self.blame, route.blame)
        self.is_suspect = self.is_suspect or route.blame > Blame.NOBODY
        self.goes_on = self.goes_on or route.may_take_others(error)
        if not isinstance(error, (NotLately, RefusedLately)):
            log.warning("relay_unreachable", relay=route.relay.name, error=str(error))

    @property
    def stops_because(self) -> Unreachable | None:
        """Why no other e-mail is to be tried either; None if one may be."""
        return None if self.goes_on else self.failure

    @property
    def wait_s(self) -> float:
        """For how long the e-mail waits: longer if it is suspect, or a relay would be asked about it each second."""
        return LONGEST_PAUSE_S if self.is_suspect else 1.0


def refusal_of_it(error: Unreachable, phase: Phase, blame: Blame) -> Refused:
    """Return a refusal of the e-mail for what looked like one of us: for good, or for now if it may still mean us.

    If the reply does not say whom it means, the relay is asked again a while later.
    """
    is_doubtful = isinstance(error, RelayRefuses) and error.is_doubtful
    wait_s = LONGEST_PAUSE_S * (1 + random.random()) if is_doubtful else 0.0  # noqa: S311  spreads, protects nothing
    return Refused(str(error), phase, is_permanent=blame == Blame.EMAIL, at_least_s=wait_s)
