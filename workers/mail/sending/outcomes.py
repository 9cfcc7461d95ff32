"""Decides what becomes of an e-mail after an attempt: pure functions from what the sender saw to what is written.

Two parts find out that an outcome is unknown: the transport, if everything was transmitted and no reply came (smtp.py),
and `leases.end_silent`, if the worker died. If the relay knows the e-mail's idempotency key, asking it again shows what
became of the e-mail.
"""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta

from weir.workers.backoff import backoff_s
from weir.workers.mail.phases import EmailState, Phase
from weir.workers.mail.transports.base import Accepted, BrokenOff, OutcomeUnknown, Refused

LONGEST_RETRY_S = 3_600.0
LONGEST_ASKING_S = 300.0  # the longest time between two questions about an unknown outcome
_SES_ID = re.compile(r"250 (?:\d\.\d\.\d )?ok ([0-9a-f]{16}-[0-9a-f-]{36}-\d{6})\s*", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True, slots=True)
class EmailOutcome:
    """How an attempt ended: the e-mail's next state and, if that is `pending`, when it is tried again."""

    state: EmailState
    phase: Phase | None = None
    last_reply: str
    attempts: int  # how many attempts are added to the e-mail's number of attempts
    retry_in_s: float = 0.0
    provider_id: str = ""
    is_settled: bool = True  # whether it is known now if any attempt until now was accepted


@dataclass(frozen=True, kw_only=True, slots=True)
class History:
    """What was known of an e-mail before the attempt."""

    attempts: int
    max_attempts: int
    is_asked_again: bool = False  # whether this attempt asks what became of an earlier one, which ended unknown
    ask_until: datetime | None = None  # until when the relay may be asked, counted from the first attempt
    now: datetime
    chance: float  # a random number in [0, 1), for the jitter


def accepted(reply: Accepted) -> EmailOutcome:
    """Return the outcome of an e-mail that the relay accepted."""
    return EmailOutcome(
        state=EmailState.SENT, last_reply=reply.reply, provider_id=reply.provider_id or _id_in(reply.reply), attempts=1
    )


def _id_in(reply: str) -> str:
    """Return the id in a reply of Amazon SES, with which SES replaces the e-mail's Message-ID."""
    found = _SES_ID.fullmatch(reply)
    return found[1] if found else ""


def cannot_be_written(reason: str) -> EmailOutcome:
    """Return the outcome of an e-mail that cannot be written, and could not be written later either."""
    return EmailOutcome(state=EmailState.FAILED, phase=Phase.NOT_BEGUN, last_reply=reason, attempts=0)


def suppressed(reason: str) -> EmailOutcome:
    """Return the outcome of an e-mail whose recipient is on the suppression list."""
    return EmailOutcome(state=EmailState.SUPPRESSED, phase=Phase.NOT_BEGUN, last_reply=reason, attempts=0)


def given_back(reason: str, retry_in_s: float = 1.0) -> EmailOutcome:
    """Return the outcome of an e-mail that is not to blame: it is tried again soon, and no attempt is counted."""
    return EmailOutcome(
        state=EmailState.PENDING, phase=Phase.NOT_BEGUN, last_reply=reason, attempts=0, retry_in_s=retry_in_s
    )


def waits_for_its_domain(reason: str, retry_in_s: float) -> EmailOutcome:
    """Return the outcome of an e-mail whose recipient's domain takes no more for now: no attempt is counted."""
    return EmailOutcome(
        state=EmailState.PENDING, phase=Phase.NOT_BEGUN, last_reply=reason, attempts=0, retry_in_s=retry_in_s
    )


def asked_in_vain(reason: str) -> EmailOutcome:
    """Return the outcome of an e-mail whose relay cannot be asked now what became of it: the relay is asked later."""
    return EmailOutcome(
        state=EmailState.PENDING,
        phase=Phase.BEGUN,
        last_reply=reason,
        attempts=0,
        retry_in_s=LONGEST_ASKING_S,
        is_settled=False,
    )


def stays_unknown(reason: str) -> EmailOutcome:
    """Return the outcome of an e-mail that may have been accepted, if its relay can no longer be asked."""
    return EmailOutcome(state=EmailState.UNKNOWN, phase=Phase.BEGUN, last_reply=reason, attempts=0, is_settled=False)


def of_failure(error: Refused | BrokenOff | OutcomeUnknown, before: History) -> EmailOutcome:
    """Return the outcome of a failed attempt."""
    said = str(error)
    if isinstance(error, OutcomeUnknown) or before.is_asked_again:  # a refusal now says nothing about that attempt
        return _unsettled(error, before)
    if isinstance(error, Refused) and error.is_permanent:
        return EmailOutcome(state=EmailState.FAILED, phase=error.phase, last_reply=said, attempts=1)
    if before.attempts + 1 >= before.max_attempts:
        given_up = f"Given up after {before.attempts + 1} attempts: {said}"
        return EmailOutcome(state=EmailState.FAILED, phase=error.phase, last_reply=given_up, attempts=1)
    retry_in_s = backoff_s(before.attempts + 1, before.chance, LONGEST_RETRY_S)
    if isinstance(error, Refused):
        retry_in_s = max(retry_in_s, error.at_least_s)
    return EmailOutcome(state=EmailState.PENDING, phase=error.phase, last_reply=said, attempts=1, retry_in_s=retry_in_s)


def _unsettled(error: Refused | BrokenOff | OutcomeUnknown, before: History) -> EmailOutcome:
    """Return the outcome if this or an earlier attempt may have been accepted: the relay is asked while it may be."""
    retry_in_s = backoff_s(before.attempts + 1, before.chance, LONGEST_ASKING_S)
    can_ask = before.ask_until is not None and before.now + timedelta(seconds=retry_in_s) < before.ask_until
    phase = error.phase if isinstance(error, OutcomeUnknown) else Phase.BEGUN
    return EmailOutcome(
        state=EmailState.PENDING if can_ask else EmailState.UNKNOWN,
        phase=phase,
        last_reply=str(error),
        attempts=1,
        retry_in_s=retry_in_s if can_ask else 0.0,
        is_settled=False,
    )
