"""Requests that are made once: web code asks for one by a key, and a fetcher makes it in its site's slot.

    from weir import request_once
    request_once("POST", "https://api.example.com/orders", key="order-17", json={"order": 17})

1. The effect of this kind and key is stored in the caller's transaction (`weir.workers.effects.queueing`), if there is
   none. No mailer takes it: its fetch is its attempts.
2. The fetch is stored beside it, and goes the way of all fetches. Where it is claimed, the effect is claimed, too
   (once/gate.py); right before its request is written, the effect begins (fetcher/begins.py); and its outcome is stored
   with that of the effect (once/settling.py).
"""

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from django.db import transaction

from weir.conf.texts.references import usable_references
from weir.conf.texts.share_weights import usable_share
from weir.postgres.moments import in_utc
from weir.ratelimit.sites import begin_turns, each_site_of
from weir.workers.effects import queueing
from weir.workers.effects.models import Effect
from weir.workers.fetches.addresses import allowed_by_settings
from weir.workers.fetches.batches.joining import wanted_batch
from weir.workers.fetches.enqueue import share_at, tell_workers
from weir.workers.fetches.enqueue.given import Form, given_request
from weir.workers.fetches.enqueue.inserting import WantedFetch, queue_all
from weir.workers.fetches.methods import METHODS, SAFE
from weir.workers.fetches.once.kinds import REQUEST, is_request
from weir.workers.fetches.targets import parse_target
from weir.workers.on_done.names import name_of
from weir.workers.tracing import correlation, spans

if TYPE_CHECKING:
    from celery import Task

MOST_ATTEMPTS: Final = 32_767
_CHANGING: Final = ", ".join(method for method in METHODS if method not in SAFE)


def request_once(
    method: str,
    url: str,
    *,
    key: str,
    kind: str = REQUEST,
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
    json: Any = None,  # noqa: ANN401  whatever json.dumps takes
    form: Form | None = None,
    priority: int = 0,
    not_before: datetime | None = None,
    expires_at: datetime | None = None,
    max_attempts: int = 5,
    on_done: "str | Task[Any, Any] | None" = None,
    batch: str | None = None,
    share: str | None = None,
    reference: str | None = None,
    user: str | int | UUID | None = None,
) -> Effect:
    """Have a POST, PUT, PATCH or DELETE made in a slot of its site, at most once; return its effect.

    There is one request for each kind and key, however often and wherever this is called: the first call counts, and
    later ones change nothing, whatever they ask for. It works in the caller's transaction.

    A fetcher commits that the request begins, right before its first byte may be written. What is certain not to have
    been sent, and what is answered with 425 or 429, or with 401 to an old access token, is tried again, `max_attempts`
    times. Any other answer is the result, of whatever status: the effect is `done`, its `result` has the status and the
    id of the fetch, and the fetch has the answer. No redirect is followed. If a byte was written, and no answer came,
    the effect may have happened: it is `unknown`, unless its `kind` says how to settle that (`request_kind`).

    The request is made as those of `request_fetch`, whose parameters have the same meaning, but over a connection of
    its own. No attempt begins at `expires_at` or later. `on_done` is called with the id of the fetch when the fetch has
    ended. `priority` is from -100 to 100. `user` is the key of the user whom the request concerns: `forget_effects`
    finds the effect by it, and leaves the fetch, which is deleted after WEIR_FETCH_RETENTION.

    Raises UnknownEffectKind; and ValueError or TypeError, and stores nothing, as `once` and `request_fetch` do, for a
    URL that Weir does not fetch, another method, and a kind that is not one of requests. Raises SitesLocked as
    `request_fetch` does.
    """
    if not is_request(kind):
        raise ValueError(f"{kind} is a kind of effect, but not of request: register it with request_kind.")
    if not 1 <= max_attempts <= MOST_ATTEMPTS:
        raise ValueError(f"max_attempts must be between 1 and {MOST_ATTEMPTS}, not {max_attempts}.")
    if isinstance(method, str) and method.upper() in SAFE:
        raise ValueError(f"method must be one of {_CHANGING}, not {method!r}: use request_fetch.")
    request = given_request(
        method=method, body=body, json=json, form=form, repeatable=True, headers=headers, revalidate=False,
        max_redirects=0,
    )  # fmt: skip
    target = parse_target(url, allowed_by_settings())
    joined = wanted_batch(batch, None, more_to_come=False)
    not_before, task = in_utc("not_before", not_before), name_of(on_done)
    [reference], share = usable_references(reference, 1), usable_share(share)
    site = each_site_of({target.host})[target.host]
    with transaction.atomic(), spans.span("enqueue fetches", {"weir.fetches": 1}):
        effect, is_new = queueing.once_handed_over(
            kind,
            key,
            context={"method": request.method, "site": site.name},
            not_before=not_before,
            expires_at=expires_at,
            priority=priority,
            user=user,
        )
        if not is_new:
            return effect
        if share:
            begin_turns([site])
        wanted = WantedFetch(
            url=url,
            hop_url=target.url,
            site_id=site.id,
            error="",
            dedupe_key=None,
            share=share_at(site, share),
            reference=reference,
        )
        common: dict[str, Any] = {
            "priority": priority,
            "max_attempts": max_attempts,
            "on_done": task,
            "revalidate": False,
            "correlation_id": correlation.current(),
            "traceparent": spans.traceparent(),
            "request_headers": request.request_headers,
            "method": request.method,
            "max_redirects": request.max_redirects,
            "batch_id": joined.join() if joined else None,
            "effect_id": effect.pk,
        }
        [fetch], new = queue_all([wanted], not_before, common, request)
        effect.context["fetch"] = fetch.pk
        effect.idempotency_key = fetch.idempotency_key or effect.idempotency_key
        effect.save(update_fields=["context", "idempotency_key"])
        transaction.on_commit(lambda: tell_workers(new), robust=True)
    return effect
