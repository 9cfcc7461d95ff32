"""The changes that operators make to fetches. Each call commits by itself, with its entries in the audit trail.

All raise acting.ActRefused (weir.workers.audit) if the actor is not permitted.
"""

from collections.abc import Mapping
from functools import partial
from typing import Final

from django.db.models import Q, QuerySet

from weir.workers.audit.acting import Actor, AuditedAction, NotPermitted
from weir.workers.fetches import cancelling, retrying
from weir.workers.fetches.methods import SAFE
from weir.workers.fetches.models import ASKED_FOR, Fetch, FetchState

MAY_CHANGE: Final = "weir_fetches.change_fetch"
MAY_SEND: Final = "weir_fetches.send_fetch"  # POST, PUT, PATCH and DELETE
CANCEL: Final = AuditedAction("fetches.cancel", MAY_CHANGE)
RETRY: Final = AuditedAction("fetches.retry", MAY_CHANGE)


def cancel(actor: Actor, fetch_id: int, *, why: str = "") -> bool:
    """Take back a fetch that has not started, as cancelling.cancel does; returns False when it is too late."""
    CANCEL.allow(actor, why)
    after = {"state": FetchState.CANCELLED}
    return cancelling.cancel(
        fetch_id, note=partial(CANCEL.record, actor, f"fetch {fetch_id}", why, before=None, after=after)
    )


def retry(
    actor: Actor,
    meant: QuerySet[Fetch],
    described: Mapping[str, object],
    *,
    why: str = "",
    limit: int | None = None,
    expected: int | None = None,
) -> retrying.Retried:
    """Queue failed fetches again, as retrying.retry_failed does; `described` names them in the audit trail.

    The trail gets an entry for each transaction. Raises NotPermitted, too, if the method of one is POST, PUT, PATCH
    or DELETE, and the actor lacks MAY_SEND.
    """
    RETRY.allow(actor, why)
    meant = may_be_sent(actor, meant)
    said = {name: value for name, value in described.items() if value is not None}
    target = "fetches " + ", ".join(f"{name} {value}" for name, value in said.items())
    if set(said) == {"id"} and str(said["id"]).isdecimal():
        target = f"fetch {said['id']}"  # the same as for `cancel`
    return retrying.retry_failed(
        meant,
        limit=limit,
        expected=expected,
        note=lambda queued: RETRY.record(actor, target, why, before=None, after={"queued": queued}),
    )


def may_be_sent(actor: Actor, meant: QuerySet[Fetch]) -> QuerySet[Fetch]:
    """Return the fetches that the actor may retry. Raises NotPermitted if the method of a failed one needs MAY_SEND.

    A webhook needs none: who added its endpoint has chosen what is sent there.
    """
    if actor.may(MAY_SEND):
        return meant
    is_free = Q(method__in=SAFE) | Q(endpoint_id__isnull=False)
    if sent := meant.filter(ASKED_FOR, state=FetchState.FAILED).exclude(is_free).first():
        lacks = f"{actor.name} lacks the permission {MAY_SEND}, which a retry of a {sent.method} takes"
        raise NotPermitted(f"{lacks}: fetch {sent.pk} is one.")
    return meant.filter(is_free)  # what fails with another one meanwhile is left alone


def would_retry(meant: QuerySet[Fetch]) -> int:
    """Return how many fetches `retry` would try to queue again now."""
    return meant.filter(ASKED_FOR, state=FetchState.FAILED).exclude(site=None).count()
