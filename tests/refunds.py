"""Kinds of effects for tests: refunds by the fake payment API, whose outcome is settled in each of the three ways."""

from datetime import timedelta
from itertools import count
from typing import Any

from tests import payments
from weir.workers.effects import kinds, queueing
from weir.workers.effects.answers import Done, NotDone
from weir.workers.effects.models import Effect
from weir.workers.effects.performing.attempts import EffectAttempt

PROBED, KEYED, BLIND = KINDS = ("test.probed", "test.keyed", "test.blind")
SETTLES_S = 2.0
PROBE_FOR = timedelta(minutes=10)
_numbers = count(1)


class Failed(Exception):
    """The API has answered with a status from which nothing follows."""


def probe(effect: Effect) -> Done | NotDone | None:
    """Ask what was done for the order."""
    if payments.refunds(effect.context["port"], effect.context["order"]):
        return Done(reference=f"re-{effect.context['order']}")
    return NotDone("There is no such refund.", retry=True)


@kinds.register(PROBED, probe=probe, probe_for=PROBE_FOR, settles_after=timedelta(seconds=SETTLES_S))
@kinds.register(KEYED, key_lifetime=timedelta(days=1))
@kinds.register(BLIND)
def refund(attempt: EffectAttempt, *, port: int, order: str) -> object:
    """Ask for the refund of an order, once in each attempt."""
    attempt.begin()
    status = payments.post(port, order, attempt.idempotency_key)
    if status == payments.DECLINED:
        raise NotDone("The refund is declined.", retry=False, of_all_attempts=True)
    if status == payments.TOO_MANY:
        raise NotDone("The API is busy.", retry=True)
    if status != payments.DONE:
        raise Failed(f"The API has answered {status}.")
    return {"status": status}


def queue(kind: str, port: int, word: str = "plain", **options: Any) -> Effect:
    """Queue the refund of a new order, whose name says how the API behaves."""
    order = f"{word}.{next(_numbers)}"
    return queueing.once(kind, order, context={"port": port, "order": order}, **options)
