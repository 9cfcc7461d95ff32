"""Queues effects for web code, each once.

from weir import once
once("stripe.refund", str(order.pk), context={"charge": order.charge})

`weir.workers.ledger.leases` describes what becomes of a queued effect.
"""

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID, uuid4

from django.db import DEFAULT_DB_ALIAS
from django.utils import timezone

from weir.postgres.statements import Statement
from weir.workers import task_names
from weir.workers.effects import kinds, users
from weir.workers.effects.models import Effect
from weir.workers.effects.names import HANDED_OVER_UNTIL, NAMES
from weir.workers.ledger import queueing
from weir.workers.ledger.waking import Waker, believed_for
from weir.workers.on_done.names import name_of
from weir.workers.publish import publish
from weir.workers.tracing import correlation, spans

if TYPE_CHECKING:
    from celery import Task


class StoredRow(NamedTuple):
    """What queue.sql returns of the effect that it has stored."""

    id: int
    created_at: datetime
    next_attempt_at: datetime
    expires_at: datetime | None
    does_older_wait: bool | None


class _Queued(NamedTuple):
    """The effect of a kind and key, whether this call has queued it, and what the statement has said of older ones."""

    effect: Effect
    is_new: bool
    does_older_wait: bool | None = None


QUEUE = Statement("queue", row=StoredRow, commits=False, prepare=True)
_FIND = queueing.FIND.with_names(NAMES._asdict())
# The fields of an Effect that are passed to the statement `queue` unchanged.
_STORED = ("kind", "key", "priority", "idempotency_key", "correlation_id", "traceparent", "on_done", "user_key")


def once(
    kind: str,
    key: str,
    *,
    context: Mapping[str, Any] | None = None,
    not_before: datetime | None = None,
    expires_at: datetime | None = None,
    priority: int = 0,
    on_done: "str | Task[Any, Any] | None" = None,
    user: str | int | UUID | None = None,
) -> Effect:
    """Queue the effect of this kind and key; return it, or the existing effect. Works in the caller's transaction.

    There is one effect for each kind and key, even if many processes call this at the same time: the first call counts,
    and later calls change nothing, for as long as the effect is kept (WEIR_EFFECT_RETENTION: for ever, unless it is
    set). Workers are told when the transaction commits. If it is rolled back, nothing happens.

    `context` has the keyword arguments of the kind's function, which must be JSON. The effect is not begun before
    `not_before`. Effects of a higher `priority` are begun first. No attempt begins at `expires_at` or later, by the
    database's clock: the effect is then `expired`.

    `on_done` is a Celery task, or its name: it is called with the effect's id when the effect has ended (`done`,
    `failed`, `cancelled` or `expired`), at least once; again if a person has it done again, and it ends again.

    `user` is the key of the user whom the effect concerns, such as `user.pk`, by which `forget_effects` finds it.

    Raises UnknownEffectKind; TypeError for an `on_done` that is no task, or a `user` that is no key; and ValueError,
    and stores nothing, if the key, a time, the priority, the context, the user or the task's name is bad. An
    `expires_at` in the past is bad, unless the effect exists already.
    """
    asked = AskedEffect(kind, key, context or {}, not_before, expires_at, priority, name_of(on_done), _user_key(user))
    queued = _queued(asked)
    if queued.is_new:
        _WAKER.after_commit(queued.effect, does_older_wait=queued.does_older_wait)
    return queued.effect


def once_handed_over(
    kind: str,
    key: str,
    *,
    context: Mapping[str, Any],
    not_before: datetime | None,
    expires_at: datetime | None,
    priority: int,
    user: str | int | UUID | None,
) -> tuple[Effect, bool]:
    """Store an effect that the caller's room performs: no mailer takes it. Return it, and whether it is new.

    As `once` in all else; in the caller's transaction.
    """
    asked = AskedEffect(kind, key, context, not_before, expires_at, priority, user_key=_user_key(user))
    queued = _queued(asked, is_handed_over=True)
    return queued.effect, queued.is_new


class AskedEffect(NamedTuple):
    """What the caller asks for."""

    kind: str
    key: str
    context: Mapping[str, Any]
    not_before: datetime | None
    expires_at: datetime | None
    priority: int
    on_done: str = ""  # the name of a task
    user_key: str = ""


def _user_key(user: str | int | UUID | None) -> str:
    return "" if user is None else users.key_of(user)


def _queued(asked: AskedEffect, *, is_handed_over: bool = False) -> _Queued:
    """Store the effect, unless there is one."""
    kind, key = asked.kind, asked.key
    registered = kinds.get(kind)
    queueing.check("an effect", key, asked.context, asked.priority)
    due_at, ends_at = queueing.times(asked.not_before, asked.expires_at, registered.expires_after)
    if ends_at and ends_at <= timezone.now() and not _FIND(kind=kind, key=key):
        raise ValueError(f"expires_at is past, so that it would never be begun: {ends_at}.")
    effect = Effect(
        kind=kind,
        key=key,
        context=dict(asked.context),
        priority=asked.priority,
        idempotency_key=uuid4(),
        correlation_id=correlation.current(),
        on_done=asked.on_done,
        user_key=asked.user_key,
    )
    with spans.span("enqueue effect", {"weir.kind": kind}):
        effect.traceparent = spans.traceparent()
        parameters = {name: getattr(effect, name) for name in _STORED} | {
            "context": json.dumps(effect.context),
            "not_before": HANDED_OVER_UNTIL if is_handed_over else due_at,
            "expires_at": ends_at,
            "expires_after": registered.expires_after,
            "believed_for": believed_for(),
        }
        while not (stored := QUEUE(**parameters)):
            if existing := Effect.objects.filter(kind=kind, key=key).first():  # else it was purged meanwhile
                return _Queued(existing, is_new=False)
    effect.pk, effect.created_at, effect.next_attempt_at, effect.expires_at, does_older_wait = stored[0]
    effect._state.adding, effect._state.db = False, DEFAULT_DB_ALIAS  # noqa: SLF001  documented, in spite of its name
    return _Queued(effect, is_new=True, does_older_wait=does_older_wait)


def wake(*, unless: Callable[[], bool] | None = None) -> None:
    """Tell a worker to look for effects that are due. The schedule also tells one every two seconds."""
    publish(task_names.PERFORM_EFFECTS, unless=unless)


_WAKER = Waker(queueing.DOES_OLDER_WAIT.with_names(NAMES._asdict()), wake)
