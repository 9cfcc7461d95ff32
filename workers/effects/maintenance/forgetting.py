"""Forgets a user: removes what effects say about the user, and keeps that each of them was asked for, and its end.

1. The act is written to the audit trail, with a hash of the user's key.
2. All effects that were queued with this user are marked.
3. Those that have ended lose the user's key, context, result and replies. Kind, key, reference, idempotency key, times
   and state stay: so none is done again.
4. What waits, is in flight or is unknown needs its context to be done, or found out, and stays as it is. The purge
   forgets it when it has ended.

An effect that has called its `on_done` counts as ended after that call. Each step may be killed anywhere, and repeated.
"""

import math
import time
from typing import Final, NamedTuple
from uuid import UUID

from django.db import transaction

from weir.postgres import batches
from weir.postgres.statements import Statement
from weir.workers.audit import acting
from weir.workers.audit.acting import Actor, AuditedAction
from weir.workers.effects import users
from weir.workers.effects.models import Effect
from weir.workers.effects.names import MAY_ACT

BATCH: Final = 500
INSTEAD: Final = "What was said here went when the user was forgotten."
ACTION: Final = AuditedAction("effects.forget", MAY_ACT, wants_reason=True)

MARK_FORGOTTEN = Statement("mark_forgotten", returns=int, commits=True)
FORGET = Statement("forget", returns=int, commits=True)
IS_TO_FORGET = Statement("is_to_forget", returns=bool, commits=False, prepare=True)


class Forgotten(NamedTuple):
    """What became of a user's effects: how many were forgotten.

    `left` counts those that have not ended: each is forgotten within ten minutes after its end.
    """

    forgotten: int
    left: int


def forget_user(user: str | int | UUID, who: str, why: str) -> Forgotten:
    """Remove what effects of this user say about the user; the effects are not done again.

    Effects that were queued with `user=` lose the user's key, context, result and replies when they have ended, and
    have called their `on_done`. What waits, is in flight or is `unknown` goes on unchanged, and is forgotten within ten
    minutes after its end: cancel or resolve it, if it is to end at once. Kind, key, reference and times stay. An effect
    that was forgotten cannot be done again. Effects that are queued later are kept.

    The audit trail names `who` with the door `code`, and a hash of the user's key. Works in short transactions, so it
    may be killed anywhere, and repeated. Raises ValueError if `user`, `who` or `why` is blank, TypeError for a user
    that is no key, and RuntimeError inside a transaction.
    """
    if not who.strip() or not why.strip():
        raise ValueError("Say who has the user forgotten, and why.")
    return forget_as(acting.of_code(who), user, why)


def forget_as(actor: Actor, user: str | int | UUID, why: str, *, within_s: float = math.inf) -> Forgotten:
    """Forget the user as `forget_user` does, for an actor who was allowed to.

    No further transaction begins after `within_s` seconds; then `left` counts what time was short for, too.
    """
    key = users.key_of(user)
    with transaction.atomic(durable=True):
        ACTION.record(actor, f"user {users.key_hash(key)}", users.redacted(why, key), before=None, after=None)
    end_at = time.monotonic() + within_s
    last: int | None = 0
    while last is not None and time.monotonic() < end_at:
        [last] = MARK_FORGOTTEN(user=key, after=last, batch=BATCH)
    forgotten = _forget(key, end_at - time.monotonic())
    return Forgotten(forgotten=forgotten, left=Effect.objects.of_user(key).count())


def finish(within_s: float = math.inf) -> int:
    """Forget the effects that have ended since their users were to be forgotten; return how many."""
    return _forget(None, within_s)


def _forget(user: str | None, within_s: float) -> int:
    return batches.delete(FORGET, batch=BATCH, within_s=within_s, user=user, instead=INSTEAD)
