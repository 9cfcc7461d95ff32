"""What becomes of an e-mail after an attempt: pure decisions, from what the sender saw to what is written.

That an outcome is unknown is seen by the transport (smtp.py: everything was transmitted, and no reply came), or by
`outbox.make_silent_unknown` (the worker died).
"""

from dataclasses import dataclass

from workers.backoff import backoff_s
from workers.mail.models import Phase, State
from workers.mail.transport import BrokenOff, OutcomeUnknown, Refused

LONGEST_RETRY_S = 3_600.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """How an attempt ended: the e-mail's next state and, if that is `pending`, when it is tried again."""

    state: State
    phase: Phase | None = None
    last_reply: str
    attempts: int  # by how many their number grows
    retry_in_s: float = 0.0


def accepted(reply: str) -> Outcome:
    """Return the outcome of an e-mail that the mail server accepted."""
    return Outcome(state=State.SENT, last_reply=reply, attempts=1)


def cannot_be_written(reason: str) -> Outcome:
    """Return the outcome of an e-mail that failed before there was anything to submit, and would fail again."""
    return Outcome(state=State.FAILED, phase=Phase.NOT_BEGUN, last_reply=reason, attempts=0)


def given_back(reason: str) -> Outcome:
    """Return the outcome of an e-mail that is not to blame: it is tried again soon, and no attempt is counted."""
    return Outcome(state=State.PENDING, phase=Phase.NOT_BEGUN, last_reply=reason, attempts=0, retry_in_s=1.0)


def of_failure(
    error: Refused | BrokenOff | OutcomeUnknown, *, attempts: int, max_attempts: int, chance: float
) -> Outcome:
    """Return the outcome of a failed attempt, after `attempts` earlier ones; `chance` in [0, 1) is the jitter."""
    said = str(error)
    if isinstance(error, OutcomeUnknown):
        return Outcome(state=State.UNKNOWN, phase=error.phase, last_reply=said, attempts=1)
    if isinstance(error, Refused) and error.is_permanent:
        return Outcome(state=State.FAILED, phase=error.phase, last_reply=said, attempts=1)
    if attempts + 1 >= max_attempts:
        given_up = f"Given up after {attempts + 1} attempts: {said}"
        return Outcome(state=State.FAILED, phase=error.phase, last_reply=given_up, attempts=1)
    retry_in_s = backoff_s(attempts + 1, chance, LONGEST_RETRY_S)
    return Outcome(state=State.PENDING, phase=error.phase, last_reply=said, attempts=1, retry_in_s=retry_in_s)
