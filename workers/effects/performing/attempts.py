"""Makes one attempt at an effect: calls the function of its kind, or asks its probe, and records the outcome."""

import random
from contextlib import suppress
from dataclasses import replace
from typing import Final

from django.utils import timezone

from weir.conf import settings
from weir.logs.loggers import get_logger
from weir.workers.effects import kinds
from weir.workers.effects.answers import LARGEST_RESULT, Done, NotDone
from weir.workers.effects.kinds import EffectKind
from weir.workers.effects.models import Effect
from weir.workers.effects.names import ENDS, EffectState, Phase
from weir.workers.effects.on_done import call_on_done
from weir.workers.effects.performing.leases import LEDGER
from weir.workers.ledger import outcomes, queueing
from weir.workers.ledger.claiming import ClaimLost
from weir.workers.ledger.outcomes import LONGEST_ASKING_S, Failure, History, Outcome
from weir.workers.tracing import correlation, spans

LONGEST_WAIT_S: Final = 30 * 86_400.0

log = get_logger(__name__)


class EffectAttempt:
    """What a kind's function gets of the attempt that it is to make. For one thread at a time."""

    def __init__(self, effect: Effect, kind: EffectKind) -> None:
        self._effect = effect
        self._kind = kind
        self._has_begun = False
        self._is_lost: ClaimLost | None = None

    @property
    def idempotency_key(self) -> str:
        """The same text in all attempts, for an other side that keeps such keys."""
        return str(self._effect.idempotency_key)

    @property
    def key(self) -> str:
        """The key that `once` was called with."""
        return str(self._effect.key)

    @property
    def number(self) -> int:
        """1 in the first attempt, and one more after each attempt that has ended."""
        return int(self._effect.attempts) + 1

    def begin(self) -> None:
        """Record, and commit, that the effect begins now. Call it right before the first byte that may cause it.

        A second call in the same attempt does nothing. Raises an error, and nothing may be sent, if this process has
        lost its claim, if the effect has expired, inside a transaction, or if PostgreSQL is away.
        """
        if self._has_begun:
            return
        try:
            LEDGER.begin(self._effect, LEDGER.asked_for_kind(self._kind), is_probed=self._kind.probe is not None)
        except ClaimLost as lost:
            self._is_lost = lost
            raise
        self._has_begun = True


def perform(effect: Effect) -> Outcome | None:
    """Make the attempt, or ask what became of an earlier one, and record the outcome.

    Return None if the claim was lost, so that the outcome does not count.
    """
    shown: dict[str, str | int] = {"weir.effect": effect.pk, "weir.kind": effect.kind}
    with correlation.bound(effect.correlation_id), spans.span("perform effect", shown, link=effect.traceparent):
        try:
            outcome = _outcome(effect, kinds.get(effect.kind))
            if not LEDGER.record(effect, outcome):
                return None
        except ClaimLost as lost:
            return lost.outcome
        if effect.on_done and outcome.state in ENDS:
            call_on_done([effect.pk])
        return outcome


def _outcome(effect: Effect, kind: EffectKind) -> Outcome:
    if effect.ask_until is None:
        LEDGER.refuse_expired(effect)
        if effect.attempts >= settings.WEIR_EFFECT_MAX_ATTEMPTS:  # the last ones ended with their processes
            return outcomes.given_up(effect.last_reply, effect.attempts)
        return _attempted(effect, kind)
    if kind.probe:
        return _asked(effect, kind)
    if kind.key_lifetime is None:
        return outcomes.stays_unknown(f"{kind.name} has neither a probe nor a key_lifetime now. {effect.last_reply}")
    if not LEDGER.may_be_asked_about(effect):
        return outcomes.stays_unknown(f"The other side does not know the key any more. {effect.last_reply}")
    return _attempted(effect, kind)


def _attempted(effect: Effect, kind: EffectKind) -> Outcome:
    """Call the kind's function, and return what follows. Raises ClaimLost."""
    if kind.hand_over:
        return kind.hand_over(effect)
    attempt = EffectAttempt(effect, kind)
    try:
        returned = kind.call(attempt, **effect.context)
    except NotDone as error:
        failure = _not_done(error, Phase.BEGUN if attempt._has_begun else Phase.NOT_BEGUN)  # noqa: SLF001  of this module
    except BaseException as error:
        log.warning("effect_call_failed", effect=effect.pk, kind=kind.name, exc_info=error)
        failure = _raised(error, kind, has_begun=attempt._has_begun)  # noqa: SLF001  as above
    else:
        if attempt._has_begun:  # noqa: SLF001  as above
            return _done(returned)
        failure = _not_begun(attempt, kind)
    if attempt._is_lost:  # noqa: SLF001  as above
        raise attempt._is_lost  # noqa: SLF001  as above
    return outcomes.of_failure(failure, history(effect, kind))


def _not_begun(attempt: EffectAttempt, kind: EffectKind) -> Failure:
    """Return what follows if a call has returned without `begin`, which is a mistake of the kind: it may have happened.

    So it is begun now: then its probe is asked, or it is `unknown`.
    """
    log.error("effect_not_begun", kind=kind.name)
    with suppress(ClaimLost):
        attempt.begin()
    said = f"{kind.name} returned without attempt.begin(), which it must call right before it sends anything."
    return Failure(said=said, phase=Phase.BEGUN, is_unknown=True, asks_after_s=kind.settles_after.total_seconds())


def _raised(error: BaseException, kind: EffectKind, *, has_begun: bool) -> Failure:
    said = f"{type(error).__name__}: {error}"
    if not has_begun:
        return Failure(said=said, phase=Phase.NOT_BEGUN)
    asks_after_s = kind.settles_after.total_seconds() if kind.probe else 0.0
    return Failure(said=said, phase=Phase.BEGUN, is_unknown=True, asks_after_s=asks_after_s)


def _not_done(error: NotDone, phase: Phase, *, of_all: bool = False) -> Failure:
    return Failure(
        said=str(error) or "NotDone, without a reason.",
        phase=phase,
        is_permanent=not error.retry,
        of_all=of_all or error.of_all_attempts,
        at_least_s=_wait_s(error.retry_after_s),
    )


def _wait_s(said: float) -> float:
    """Return the seconds to wait, up to LONGEST_WAIT_S; 0 for what is no number. Calls take them from headers."""
    try:
        seconds = float(said)
    except (TypeError, ValueError):
        return 0.0
    return min(seconds, LONGEST_WAIT_S) if seconds > 0 else 0.0  # not a number is not above 0


def history(effect: Effect, kind: EffectKind) -> History:
    """Return what was known of the effect before its attempt."""
    now, asked_for = timezone.now(), LEDGER.asked_for_kind(kind)
    return History(
        attempts=effect.attempts,
        max_attempts=settings.WEIR_EFFECT_MAX_ATTEMPTS,
        is_asked_again=effect.ask_until is not None,
        ask_until=effect.ask_until or (now + asked_for if asked_for else None),
        now=now,
        chance=random.random(),  # noqa: S311  spreads retries, protects nothing
    )


def _done(answer: object) -> Outcome:
    """Return the outcome of an effect that has happened, even if its result cannot be kept."""
    done = answer if isinstance(answer, Done) else Done(answer)
    said, result = "It returned.", None
    try:
        result = queueing.check_json("result", done.result, LARGEST_RESULT)
    except ValueError as error:
        said = f"It returned, and its result is not kept: {error}"
    return Outcome(
        state=EffectState.DONE.value,
        last_reply=said,
        attempts=1,
        reference=str(done.reference or ""),  # many APIs have numbers
        own={"result": None if done.result is None else result},
    )


def _asked(effect: Effect, kind: EffectKind) -> Outcome:
    """Ask the kind's probe what became of the effect, and return what follows."""
    if kind.probe is None:
        raise ValueError(f"{kind.name} has no probe.")
    said = "The probe cannot tell yet."
    try:
        answer: object = kind.probe(effect)
    except NotDone as error:
        answer = error
    except BaseException as error:
        log.warning("effect_probe_failed", effect=effect.pk, kind=kind.name, exc_info=error)
        answer, said = None, f"The probe failed: {type(error).__name__}: {error}"
    if isinstance(answer, Done):
        return replace(_done(answer), attempts=0)
    if isinstance(answer, NotDone):
        return outcomes.of_failure(_not_done(answer, Phase.BEGUN, of_all=True), history(effect, kind))
    if answer is not None:
        said = f"The probe of {kind.name} must return EffectDone, NotDone or None, but returned {answer!r}."
    if not LEDGER.may_be_asked_about(effect):
        return outcomes.stays_unknown(f"{said} It is not asked any more.")
    return outcomes.asked_in_vain(said, _next_question_s(effect, kind))


def _next_question_s(effect: Effect, kind: EffectKind) -> float:
    """Return the seconds until the next question: half as long as the effect has been unknown, up to five minutes."""
    if effect.ask_until is None:
        return LONGEST_ASKING_S
    since = timezone.now() - (effect.ask_until - kind.probe_for)
    return min(max(since.total_seconds() / 2, 1.0), LONGEST_ASKING_S)
