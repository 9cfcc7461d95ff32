"""Queues effects for web code, each once.

from weir import once
once("stripe.refund", str(order.pk), context={"charge": order.charge})

`weir.workers.ledger.leases` describes what becomes of a queued effect.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any
from uuid import uuid4

from django.db import transaction
from django.utils import timezone

from weir.postgres.statements import Statement
from weir.workers import task_names
from weir.workers.effects import kinds
from weir.workers.effects.models import Effect
from weir.workers.effects.names import NAMES
from weir.workers.ledger import queueing
from weir.workers.publish import publish
from weir.workers.tracing import correlation, spans

QUEUE = Statement("queue", returns=int, commits=False, prepare=True)
_DOES_OLDER_WAIT = queueing.DOES_OLDER_WAIT.with_names(NAMES._asdict())
_FIND = queueing.FIND.with_names(NAMES._asdict())


def once(
    kind: str,
    key: str,
    *,
    context: Mapping[str, Any] | None = None,
    not_before: datetime | None = None,
    expires_at: datetime | None = None,
    priority: int = 0,
) -> Effect:
    """Queue the effect of this kind and key; return it, or the existing effect. Works in the caller's transaction.

    There is one effect for each kind and key, even if many processes call this at the same time: the first call counts,
    and later calls change nothing. Workers are told when the transaction commits. If it is rolled back, nothing
    happens.

    `context` has the keyword arguments of the kind's function, which must be JSON. The effect is not begun before
    `not_before`. Effects of a higher `priority` are begun first. No attempt begins at `expires_at` or later, by the
    database's clock: the effect is then `expired`.

    Raises UnknownEffectKind; and ValueError, and stores nothing, if the key, a time, the priority or the context is
    bad. An `expires_at` in the past is bad, unless the effect exists already.
    """
    registered = kinds.get(kind)
    queueing.check("an effect", key, context, priority)
    due_at, ends_at = queueing.times(not_before, expires_at, registered.expires_after)
    if _FIND(kind=kind, key=key):
        return Effect.objects.get(kind=kind, key=key)
    if ends_at and ends_at <= timezone.now():
        raise ValueError(f"expires_at is past, so that it would never be begun: {ends_at}.")
    with spans.span("enqueue effect", {"weir.kind": kind}):
        stored = QUEUE(
            kind=kind,
            key=key,
            context=queueing.check_json("context", context or {}, queueing.LARGEST_CONTEXT),
            priority=priority,
            not_before=due_at,
            expires_at=ends_at,
            expires_after=registered.expires_after,
            idempotency_key=uuid4(),
            correlation_id=correlation.current(),
            traceparent=spans.traceparent(),
        )
    effect = Effect.objects.get(kind=kind, key=key)
    if stored:
        transaction.on_commit(lambda: _wake_unless_others_wait(effect), robust=True)
    return effect


def wake(*, unless: Callable[[], bool] | None = None) -> None:
    """Tell a worker to look for effects that are due. The schedule also tells one every two seconds."""
    publish(task_names.PERFORM_EFFECTS, unless=unless)


def _wake_unless_others_wait(effect: Effect) -> None:
    """Wake a worker, unless an older effect of this kind is due: the worker that takes that one takes this one, too."""
    queue = {"row": effect.pk, "kind": effect.kind, "priority": effect.priority}
    wake(unless=lambda: bool(_DOES_OLDER_WAIT(**queue)))
