"""Decides what becomes of an e-mail after an attempt: pure functions from what the sender saw to what is written.

`weir.workers.ledger.outcomes` decides what is true of all effects. Two parts find out that an outcome is unknown: the
transport, if everything was transmitted and no reply came (smtp.py), and `leases.end_silent`, if the worker died. If
the relay knows the e-mail's idempotency key, asking it again shows what became of the e-mail.
"""

import re

from weir.workers.ledger import outcomes
from weir.workers.ledger.outcomes import (
    LONGEST_RETRY_S,
    Failure,
    History,
    Outcome,
    asked_in_vain,
    given_back,
    stays_unknown,
)
from weir.workers.mail.phases import EmailState, Phase
from weir.workers.mail.transports.base import Accepted, BrokenOff, OutcomeUnknown, Refused

__all__ = ["LONGEST_RETRY_S", "asked_in_vain", "given_back", "stays_unknown"]

_SES_ID = re.compile(r"250 (?:\d\.\d\.\d )?ok ([0-9a-f]{16}-[0-9a-f-]{36}-\d{6})\s*", re.IGNORECASE)


def accepted(reply: Accepted) -> Outcome:
    """Return the outcome of an e-mail that the relay accepted."""
    return Outcome(
        state=EmailState.SENT.value,
        last_reply=reply.reply,
        reference=reply.provider_id or _id_in(reply.reply),
        attempts=1,
    )


def _id_in(reply: str) -> str:
    """Return the id in a reply of Amazon SES, with which SES replaces the e-mail's Message-ID."""
    found = _SES_ID.fullmatch(reply)
    return found[1] if found else ""


def cannot_be_written(reason: str) -> Outcome:
    """Return the outcome of an e-mail that cannot be written, and could not be written later either."""
    return Outcome(state=EmailState.FAILED.value, phase=Phase.NOT_BEGUN.value, last_reply=reason, attempts=0)


def nothing_to_tell() -> Outcome:
    """Return the outcome of an e-mail of a drafted kind that has nothing to tell any more."""
    said = "There is nothing left to tell: all of it was read, or is gone."
    return Outcome(state=EmailState.CANCELLED.value, phase=Phase.NOT_BEGUN.value, last_reply=said, attempts=0)


def suppressed(reason: str) -> Outcome:
    """Return the outcome of an e-mail whose recipient is on the suppression list."""
    return Outcome(state=EmailState.SUPPRESSED.value, phase=Phase.NOT_BEGUN.value, last_reply=reason, attempts=0)


def of_failure(error: Refused | BrokenOff | OutcomeUnknown, before: History) -> Outcome:
    """Return the outcome of a failed attempt."""
    refused = error if isinstance(error, Refused) else None
    failure = Failure(
        said=str(error),
        phase=error.phase.value,
        is_unknown=isinstance(error, OutcomeUnknown),
        is_permanent=refused is not None and refused.is_permanent,
        at_least_s=refused.at_least_s if refused else 0.0,
    )
    return outcomes.of_failure(failure, before)
