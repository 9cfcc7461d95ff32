"""Settling: what becomes of the effect of a fetch whose request is made once, and so of the fetch.

| What is known of the attempt | The effect | The fetch |
|---|---|---|
| an answer came, whatever it says | `done` | `done`, with the answer |
| an answer came that says that nobody has acted on the request | waits, or `failed` | is tried again, or `failed` |
| nothing was written | waits, or `failed` | is tried again, or `failed` |
| something was written, and no answer came | its probe is asked | waits for what the probe says |
| the same, and the site keeps idempotency keys | waits | is tried again with the same key |
| the same, with neither | `unknown` | `failed` |
"""

from dataclasses import replace
from typing import Final

from weir.workers.effects.names import HANDED_OVER_S, EffectState, Phase
from weir.workers.effects.performing.held import HeldEffect, SettledEffect
from weir.workers.fetches.jobs import Answer, Event, Failure, FetchOutcome
from weir.workers.fetches.models import FetchState
from weir.workers.ledger.outcomes import Outcome

# Too Early (RFC 8470, 5.2) and Too Many Requests (RFC 6585, 4): the site has refused to look at the request. A 503 does
# not say that.
NOT_ACTED_ON: Final = frozenset({425, 429})
NO_ANSWER: Final = "the connection was given up before an answer came"
MAY_HAVE_HAPPENED: Final = "it may have happened"  # after the cause, by which the history recognises the failure


def settled(outcome: FetchOutcome, event: Event) -> FetchOutcome:
    """Return the outcome with that of the effect, and as that wants it. May wait for a begin that is at work."""
    held = event.job.effect
    if held is None or outcome.effect is not None:
        return outcome
    held.end_turn()
    is_refused = _is_refused(event, outcome)
    if isinstance(event, Answer) and not is_refused:
        return _answered(outcome, event, held)
    said = outcome.error or NO_ANSWER
    tries = {"attempts": event.job.attempts, "max_attempts": event.job.max_attempts}
    if outcome.slot_used and not is_refused:
        of_effect = held.may_have_happened(said, **tries)
        return _following(replace(outcome, error=said), held, of_effect, is_known=False)
    if not outcome.attempted and outcome.state == FetchState.QUEUED:
        return replace(outcome, effect=SettledEffect(held.effect, held.given_back(said)))
    phase = Phase.BEGUN if is_refused else Phase.NOT_BEGUN
    failed = held.failed(said, is_last=outcome.state == FetchState.FAILED, phase=phase, **tries)
    return _following(outcome, held, failed, is_known=True)


def _is_refused(event: Event, outcome: FetchOutcome) -> bool:
    """Return whether an answer says that nobody has acted on the request: a 401 does so (RFC 9110, 15.5.2), too."""
    if isinstance(event, Answer):
        return event.status_code in NOT_ACTED_ON or bool(outcome.refused_tokens)
    return isinstance(event, Failure) and event.is_refused


def _answered(outcome: FetchOutcome, answer: Answer, held: HeldEffect) -> FetchOutcome:
    """Return the outcome of a request that was answered, even if the answer could not be read as far as it came."""
    result = {"fetch": answer.job.fetch_id, "status": answer.status_code}
    return replace(
        outcome,
        state=FetchState.DONE,
        attempted=True,
        slot_used=True,
        delay_s=0.0,
        status_code=answer.status_code,
        lateness_ms=answer.lateness_ms,
        elapsed_ms=answer.elapsed_ms,
        incomplete=outcome.incomplete or (outcome.error if outcome.state != FetchState.DONE else ""),
        error="",
        effect=SettledEffect(held.effect, held.done(f"The site answered {answer.status_code}.", result)),
    )


def _following(outcome: FetchOutcome, held: HeldEffect, of_effect: Outcome, *, is_known: bool) -> FetchOutcome:
    """Return the outcome of a fetch whose effect has this outcome."""
    is_asked = not is_known and held.kind.probe is not None
    waits_s = of_effect.retry_in_s if is_asked else HANDED_OVER_S
    outcome = replace(outcome, effect=SettledEffect(held.effect, replace(of_effect, retry_in_s=waits_s)))
    if of_effect.state == EffectState.UNKNOWN:
        return replace(outcome, state=FetchState.FAILED, attempted=True, error=f"{outcome.error}; {MAY_HAVE_HAPPENED}")
    if of_effect.state == EffectState.FAILED:
        return replace(outcome, state=FetchState.FAILED)
    if is_known and outcome.state == FetchState.QUEUED:
        return outcome
    delay_s = HANDED_OVER_S if is_asked else of_effect.retry_in_s
    error = f"{outcome.error}; {MAY_HAVE_HAPPENED}"
    return replace(outcome, state=FetchState.QUEUED, attempted=True, delay_s=delay_s, error=error)
