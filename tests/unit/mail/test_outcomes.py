"""What becomes of an e-mail after an attempt, as a table."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.cases import for_each
from weir.workers.ledger.outcomes import History
from weir.workers.mail.phases import EmailState, Phase
from weir.workers.mail.sending import outcomes
from weir.workers.mail.transports.base import BrokenOff, OutcomeUnknown, Refused

LATER = Refused("451 Come back later", Phase.NOT_BEGUN, is_permanent=False)
NEVER = Refused("550 No such recipient", Phase.NOT_BEGUN, is_permanent=True)
AFTER_ALL = Refused("554 Nobody wants this", Phase.AFTER_DOT, is_permanent=True)
CUT = BrokenOff("SMTPServerDisconnected: gone", Phase.BEFORE_DOT)
LOST = OutcomeUnknown("SMTPServerDisconnected: gone", Phase.AFTER_DOT)


NOW = datetime(2026, 11, 3, 12, tzinfo=UTC)


def before(attempts: int, **changes: Any) -> History:
    """Return what was known before an attempt, of five at most, to a relay that knows no keys."""
    return History(**{"attempts": attempts, "max_attempts": 5, "now": NOW, "chance": 0.0, **changes})


@for_each(
    ("error", "earlier", "state", "phase"),
    [
        (LATER, 0, EmailState.PENDING, Phase.NOT_BEGUN),
        (LATER, 3, EmailState.PENDING, Phase.NOT_BEGUN),
        (LATER, 4, EmailState.FAILED, Phase.NOT_BEGUN),
        (LATER, 9, EmailState.FAILED, Phase.NOT_BEGUN),
        (CUT, 0, EmailState.PENDING, Phase.BEFORE_DOT),
        (CUT, 4, EmailState.FAILED, Phase.BEFORE_DOT),
        (NEVER, 0, EmailState.FAILED, Phase.NOT_BEGUN),
        (AFTER_ALL, 0, EmailState.FAILED, Phase.AFTER_DOT),
        (LOST, 0, EmailState.UNKNOWN, Phase.AFTER_DOT),
        (LOST, 4, EmailState.UNKNOWN, Phase.AFTER_DOT),
    ],
)
def test_what_is_certainly_not_accepted_is_tried_again_and_what_may_be_never(
    error: Refused | BrokenOff | OutcomeUnknown, earlier: int, state: EmailState, phase: Phase
) -> None:
    """Temporary refusals until the attempts are used up; permanent ones fail; nobody guesses after the dot."""
    outcome = outcomes.of_failure(error, before(earlier))
    assert (outcome.state, outcome.phase, outcome.attempts) == (state, phase, 1)
    assert str(error) in outcome.last_reply


@for_each(
    ("earlier", "chance", "seconds"),
    [(0, 0.0, 1.0), (1, 0.0, 2.0), (2, 0.5, 3.0), (11, 0.0, 2_048.0), (12, 0.0, 3_600.0), (18, 0.99, 1_818.0)],
)
def test_the_next_attempt_comes_later_each_time_but_within_an_hour(earlier: int, chance: float, seconds: float) -> None:
    """1, 2, 4, ... 3,600 seconds, of which chance takes up to half."""
    outcome = outcomes.of_failure(LATER, before(earlier, max_attempts=20, chance=chance))
    assert outcome.retry_in_s == pytest.approx(seconds)


def test_what_could_not_be_written_fails_and_what_is_given_back_is_as_if_it_had_not_been_tried() -> None:
    """Neither counts as an attempt."""
    unwritten, back = outcomes.cannot_be_written("no address"), outcomes.given_back("the server is down")
    assert (unwritten.state, unwritten.attempts, unwritten.last_reply) == (EmailState.FAILED, 0, "no address")
    assert (back.state, back.attempts, back.retry_in_s) == (EmailState.PENDING, 0, 1.0)


def test_who_gives_up_says_after_how_many_attempts() -> None:
    """The operator sees both: that it is over, and what the server said last."""
    outcome = outcomes.of_failure(LATER, before(4))
    assert outcome.last_reply == "Given up after 5 attempts: 451 Come back later"


CONFLICT = Refused("409 concurrent requests", Phase.NOT_BEGUN, is_permanent=False)


@for_each(
    ("error", "asked_again", "key_known_for_s", "state", "settled"),
    [
        (LOST, False, 3_600, EmailState.PENDING, False),
        (LOST, True, 3_600, EmailState.PENDING, False),
        (LOST, True, 0.5, EmailState.UNKNOWN, False),
        (CUT, True, 3_600, EmailState.PENDING, False),
        (CONFLICT, True, 3_600, EmailState.PENDING, False),
        (CONFLICT, True, 0.5, EmailState.UNKNOWN, False),
        (CONFLICT, False, 3_600, EmailState.PENDING, True),
        (NEVER, True, 3_600, EmailState.PENDING, False),
        (NEVER, False, 3_600, EmailState.FAILED, True),
    ],
)
def test_a_relay_that_knows_the_key_is_asked_again_while_it_does(
    error: Refused | BrokenOff | OutcomeUnknown,
    asked_again: bool,
    key_known_for_s: float,
    state: EmailState,
    settled: bool,
) -> None:
    """However many attempts there were; what an earlier attempt left open, only an answer about the e-mail settles."""
    ask_until = NOW + timedelta(seconds=key_known_for_s)
    outcome = outcomes.of_failure(
        error, before(4 if asked_again else 0, is_asked_again=asked_again, ask_until=ask_until)
    )
    assert (outcome.state, outcome.is_settled) == (state, settled)
