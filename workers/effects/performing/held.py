"""Effects that another room performs, each in a turn of that room's, such as the slot of a fetch.

1. `hold` claims effects when the process gets their turns.
2. `HeldEffect.begin` commits, right before the first byte, that the effect begins.
3. `HeldEffect.outcome_of_failure` and the others decide what becomes of it, and `record` writes that in the transaction
   in which the room stores what it knows of the turn.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from weir.workers.effects import kinds
from weir.workers.effects.kinds import EffectKind
from weir.workers.effects.models import Effect
from weir.workers.effects.names import HANDED_OVER_S, EffectState, Phase
from weir.workers.effects.performing.attempts import history
from weir.workers.effects.performing.leases import LEDGER
from weir.workers.ledger import outcomes
from weir.workers.ledger.claiming import ClaimLost
from weir.workers.ledger.outcomes import Failure, Outcome

if TYPE_CHECKING:
    from concurrent.futures import Future


class NotBegun(Exception):
    """The effect could not be begun: nothing may be sent for it in this turn."""


class HeldEffect:
    """A claimed effect, in the hands of the process that has its turn."""

    def __init__(self, effect: Effect, kind: EffectKind, lease: timedelta) -> None:
        self.effect = effect
        self.kind = kind
        self.beginning: Future[None] | None = None  # of the call of `begin` in another thread
        self._lease = lease

    @property
    def has_begun(self) -> bool:
        """Return whether `begin` is known to have committed."""
        return self.beginning is not None and self.beginning.done() and not self._why_not()

    @property
    def is_asked_again(self) -> bool:
        """Return whether an earlier attempt may have happened, so that the request is made again with its key."""
        return self.effect.ask_until is not None

    def may_begin(self) -> bool:
        """Return whether the effect may begin: no attempt may have happened, or the other side still knows its key."""
        if not self.is_asked_again:
            return True
        return self.kind.key_lifetime is not None and LEDGER.may_be_asked_about(self.effect)

    def begin(self) -> None:
        """Record, and commit, that the effect begins now. Raises NotBegun, or an error of the database's.

        A claim can be lost, and an effect can have expired, or been cancelled. The lease of the effect outlasts the
        turn: no other thread renews it.
        """
        try:
            asked_for, is_probed = LEDGER.asked_for_kind(self.kind), self.kind.probe is not None
            LEDGER.begin(self.effect, asked_for, is_probed=is_probed, lease=self._lease)
        except ClaimLost as error:
            raise NotBegun from error

    def end_turn(self) -> None:
        """Wait until no call of `begin` is at work, or begins, any more. Not for an event loop."""
        if self.beginning is not None and not self.beginning.cancel():
            self._why_not()

    def done(self, said: str, result: Mapping[str, object]) -> Outcome:
        """Return the outcome of an effect that has happened."""
        own = {"result": json.dumps(result)}
        return Outcome(state=EffectState.DONE.value, last_reply=said, attempts=1, own=own)

    def given_back(self, said: str) -> Outcome:
        """Return the outcome of a turn in which nothing was sent, through no fault of the other side."""
        outcome = outcomes.given_back(said, HANDED_OVER_S)
        return replace(outcome, is_settled=not self.is_asked_again)

    def failed(self, said: str, *, attempts: int, max_attempts: int, is_last: bool, phase: Phase) -> Outcome:
        """Return the outcome of an attempt in which certainly nothing happened."""
        failure = Failure(said=said, phase=phase, is_permanent=is_last)
        return self._of_failure(failure, attempts, max_attempts)

    def may_have_happened(self, said: str, *, attempts: int, max_attempts: int) -> Outcome:
        """Return the outcome of an attempt in which a byte was sent, and of which no answer came."""
        asks_after_s = self.kind.settles_after.total_seconds() if self.kind.probe else 0.0
        failure = Failure(said=said, phase=Phase.BEGUN, is_unknown=True, asks_after_s=asks_after_s)
        return self._of_failure(failure, attempts, max_attempts)

    def _of_failure(self, failure: Failure, attempts: int, max_attempts: int) -> Outcome:
        before = replace(history(self.effect, self.kind), attempts=attempts, max_attempts=max_attempts)
        return outcomes.of_failure(failure, before)

    def _why_not(self) -> BaseException | None:
        return None if self.beginning is None else self.beginning.exception()


class SettledEffect(NamedTuple):
    """What is to be written about an effect when its turn has ended."""

    effect: Effect
    outcome: Outcome


def hold(effects: Mapping[int, timedelta]) -> dict[int, HeldEffect | Effect]:
    """Claim effects; each for the given time. Return those that are held now, and the others as they are.

    An effect that is deleted is missing. One whose kind this process does not know is not claimed.
    """
    claimed = LEDGER.claim_these(effects.keys(), max(effects.values()))
    found: dict[int, HeldEffect | Effect] = {
        effect.pk: effect for effect in Effect.objects.filter(pk__in=effects.keys() - claimed.keys())
    }
    for effect_id, effect in claimed.items():
        found[effect_id] = HeldEffect(effect, kinds.get(effect.kind), effects[effect_id])
    return found


def waits_for_probe(effect: Effect) -> bool:
    """Return whether the effect may have happened, and its probe says whether it has."""
    return effect.ask_until is not None and effect.kind in LEDGER.probed()


def record(settled: SettledEffect, *, has_turn: bool) -> None:
    """Write the outcome, in the caller's transaction.

    If the room had not the turn any more, an effect that is pending is due, so that a mailer hands it over anew.
    """
    outcome = settled.outcome
    if outcome.state == EffectState.PENDING and not has_turn:
        outcome = replace(outcome, retry_in_s=0.0)
    LEDGER.record_within(settled.effect, outcome)
