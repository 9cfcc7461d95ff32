"""Kinds of requests that are made once: how it is settled what became of one of which no answer came."""

from datetime import timedelta
from typing import Final

from weir.postgres.statements import Statement
from weir.ratelimit.sites import sites_of
from weir.workers.effects import kinds
from weir.workers.effects.kinds import Probe
from weir.workers.effects.models import Effect
from weir.workers.effects.names import HANDED_OVER_S, EffectState, Phase
from weir.workers.fetches import backlog
from weir.workers.fetches.addresses import allowed_by_settings
from weir.workers.fetches.models import Fetch, FetchState
from weir.workers.fetches.targets import parse_target
from weir.workers.ledger import outcomes
from weir.workers.ledger.outcomes import Outcome

REQUEST: Final = "weir.request"
AGAIN_S: Final = 2.0  # seconds after which an effect is handed over again whose fetch is running

HAND_OVER = Statement("hand_over", returns=int, commits=True)


def request_kind(
    name: str,
    *,
    probe: Probe | None = None,
    probe_for: timedelta = timedelta(days=1),
    settles_after: timedelta = timedelta(seconds=60),
    key_lifetime: timedelta | None = None,
    expires_after: timedelta | None = None,
) -> None:
    """Register a kind of request for `request_once`, in the module `effects.py` of an app.

    If a request was sent, and no answer came, it is settled by the `probe`, or within the `key_lifetime`, as those of
    `effect_kind`: the site is asked what became of the request, or gets the request again with the same
    Idempotency-Key. With neither, the effect is `unknown`, and waits for an operator. Raises ValueError as
    `effect_kind` does.
    """
    kinds.register(
        name,
        probe=probe,
        probe_for=probe_for,
        settles_after=settles_after,
        key_lifetime=key_lifetime,
        expires_after=expires_after,
    )(_not_called)
    kinds.hand_over(name, _hand_over)


def is_request(name: str) -> bool:
    """Return whether this is a kind of request. Raises UnknownEffectKind."""
    return kinds.get(name).hand_over is _hand_over


def _not_called(*_arguments: object, **_context: object) -> object:
    raise RuntimeError("A fetcher makes this request.")


def _hand_over(effect: Effect) -> Outcome:
    """Queue the effect's fetch again: an operator has decided that, or a probe has found that nothing happened."""
    fetch = Fetch.objects.filter(effect=effect).first()
    if fetch is None:
        return _ended(effect, "Its fetch is deleted (WEIR_FETCH_RETENTION): call request_once with another key.")
    if fetch.state == FetchState.CANCELLED:
        return _ended(effect, "Its fetch was cancelled.")
    target = parse_target(fetch.url, allowed_by_settings())
    site = sites_of({target.host})[target.host]
    backlog.activate(sites := HAND_OVER(fetch=fetch.pk, site=site, key=effect.idempotency_key))
    # A fetcher that has its turn now may have found the effect as it was before, and be about to end the fetch.
    is_turned_away = not sites and Fetch.objects.filter(pk=fetch.pk, state=FetchState.RUNNING).exists()
    return Outcome(
        state=EffectState.PENDING.value,
        phase=Phase.NOT_BEGUN if effect.ask_until is None else Phase.BEGUN,
        last_reply=f"Its fetch {fetch.pk} is {'running' if is_turned_away else 'queued'}.",
        attempts=0,
        retry_in_s=AGAIN_S if is_turned_away else HANDED_OVER_S,
        is_settled=effect.ask_until is None,
    )


def _ended(effect: Effect, why: str) -> Outcome:
    if effect.ask_until is not None:
        return outcomes.stays_unknown(why)
    return Outcome(state=EffectState.FAILED.value, phase=Phase.NOT_BEGUN, last_reply=why, attempts=0)


request_kind(REQUEST)
