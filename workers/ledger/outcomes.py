"""Decides what becomes of an effect after an attempt: pure functions from what the worker saw to what is written.

Two parts find out that an outcome is unknown: the code that makes the attempt, if no answer came, and
`Ledger.end_silent`, if the worker died. If the other side can be asked, asking shows what became of the effect.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from weir.workers.backoff import backoff_s
from weir.workers.ledger import rows

LONGEST_RETRY_S = 3_600.0
LONGEST_ASKING_S = 300.0  # the longest time between two questions about an unknown outcome


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """How an attempt ended: the effect's next state and, if that is `pending`, when it is tried again."""

    state: str
    phase: str = ""
    last_reply: str
    attempts: int  # how many attempts are added to the effect's number of attempts
    retry_in_s: float = 0.0
    reference: str = ""  # the name that the other side gave it
    is_settled: bool = True  # whether it is known now if any attempt until now was accepted
    own: Mapping[str, object] = field(default_factory=dict)  # parameters of what the room's own columns get


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """How an attempt failed, and what is certain about it."""

    said: str
    phase: str
    is_unknown: bool = False  # whether it may have happened all the same
    is_permanent: bool = False  # whether another attempt would fail as well
    of_all: bool = False  # whether it is certain of all attempts until now that none has happened
    at_least_s: float = 0.0  # how long to wait before the next attempt
    asks_after_s: float = 0.0  # how long to wait before the first question about an unknown outcome


@dataclass(frozen=True, kw_only=True, slots=True)
class History:
    """What was known of an effect before the attempt."""

    attempts: int
    max_attempts: int
    is_asked_again: bool = False  # whether this attempt asks what became of an earlier one, which ended unknown
    ask_until: datetime | None = None  # until when the other side may be asked, counted from the first attempt
    now: datetime
    chance: float  # a random number in [0, 1), for the jitter


def given_back(reason: str, retry_in_s: float = 1.0) -> Outcome:
    """Return the outcome of an effect that is not to blame: it is tried again soon, and no attempt is counted."""
    return Outcome(state=rows.PENDING, phase=rows.NOT_BEGUN, last_reply=reason, attempts=0, retry_in_s=retry_in_s)


def asked_in_vain(reason: str, retry_in_s: float = LONGEST_ASKING_S) -> Outcome:
    """Return the outcome of an effect whose other side cannot be asked now what became of it: it is asked later."""
    return Outcome(
        state=rows.PENDING,
        phase=rows.BEGUN,
        last_reply=reason,
        attempts=0,
        retry_in_s=retry_in_s,
        is_settled=False,
    )


def given_up(reason: str, attempts: int) -> Outcome:
    """Return the outcome of an effect that no attempt has begun, and for which no attempt is left."""
    said = f"Given up after {attempts} attempts: {reason}"
    return Outcome(state=rows.FAILED, phase=rows.NOT_BEGUN, last_reply=said, attempts=0)


def stays_unknown(reason: str) -> Outcome:
    """Return the outcome of an effect that may have happened, if the other side can no longer be asked."""
    return Outcome(state=rows.UNKNOWN, phase=rows.BEGUN, last_reply=reason, attempts=0, is_settled=False)


def of_failure(failure: Failure, before: History) -> Outcome:
    """Return the outcome of a failed attempt."""
    if failure.is_unknown or (before.is_asked_again and not failure.of_all):
        return _unsettled(failure, before)  # a refusal now says nothing about an earlier attempt
    if failure.is_permanent:
        return Outcome(state=rows.FAILED, phase=failure.phase, last_reply=failure.said, attempts=1)
    if before.attempts + 1 >= before.max_attempts:
        given_up = f"Given up after {before.attempts + 1} attempts: {failure.said}"
        return Outcome(state=rows.FAILED, phase=failure.phase, last_reply=given_up, attempts=1)
    retry_in_s = max(backoff_s(before.attempts + 1, before.chance, LONGEST_RETRY_S), failure.at_least_s)
    return Outcome(state=rows.PENDING, phase=failure.phase, last_reply=failure.said, attempts=1, retry_in_s=retry_in_s)


def _unsettled(failure: Failure, before: History) -> Outcome:
    """Return the outcome if this or an earlier attempt may have happened: the other side is asked while it may be."""
    retry_in_s = max(backoff_s(before.attempts + 1, before.chance, LONGEST_ASKING_S), failure.asks_after_s)
    can_ask = before.ask_until is not None and before.now + timedelta(seconds=retry_in_s) < before.ask_until
    return Outcome(
        state=rows.PENDING if can_ask else rows.UNKNOWN,
        phase=failure.phase if failure.is_unknown else rows.BEGUN,
        last_reply=failure.said,
        attempts=1,
        retry_in_s=retry_in_s if can_ask else 0.0,
        is_settled=False,
    )
