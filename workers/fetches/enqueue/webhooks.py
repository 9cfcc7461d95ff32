"""Fetches that are webhooks: how the room above asks for them in bulk, and what it asks about them.

Each delivers one message to an endpoint, by a POST that the fetcher signs when it writes it (weir.signatures.webhooks).
The message's id is the same in all attempts. What counts as received is said in fetcher/results/receipts.py.
"""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Final, NamedTuple

from django.db import transaction
from django.db.models.functions import Now

from weir.postgres.statements import Statement
from weir.ratelimit.sites import each_site_of
from weir.signatures import webhooks as signatures
from weir.workers.fetches import backlog
from weir.workers.fetches.addresses import allowed_by_settings
from weir.workers.fetches.enqueue import share_at
from weir.workers.fetches.models import Fetch, FetchQuerySet, FetchState, RequestBody
from weir.workers.fetches.targets import parse_target

MAX_ATTEMPTS: Final = 108  # after about 1, 2, 4, ... seconds, and then each hour, less a jitter: about three days


GONE: Final = 410
HELD_UNTIL: Final = datetime(9000, 1, 1, tzinfo=UTC)  # not_before of webhooks that wait until their endpoint is resumed
HELD: Final = datetime(8000, 1, 1, tzinfo=UTC)  # a later not_before is that one, perhaps moved with PostgreSQL's clock


class Message(NamedTuple):
    """What is delivered: its id, by which receivers tell doubles apart, and its JSON."""

    id: str
    body: bytes


class LastFailure(NamedTuple):
    """The last webhook of an endpoint that was not received, whether it is tried again or has failed."""

    fetch_id: int
    error: str
    is_unfinished: bool


ENQUEUE_WEBHOOKS = Statement("enqueue_webhooks", returns=int, commits=False)
COUNT_WEBHOOKS = Statement("count_webhooks", returns=int, commits=False)
QUEUED_ENDPOINTS = Statement("queued_endpoints", returns=int, commits=False)


def ask(url: str, secret: str, endpoint_id: int, messages: Sequence[Message]) -> list[int]:
    """Queue a webhook for each message, in the caller's transaction; returns their ids. `secret` is a secret's name.

    Raises InvalidTarget if the settings forbid the URL, and SitesLocked if other transactions block the site of a new
    host for ten seconds.
    """
    target = parse_target(url, allowed_by_settings())
    site = each_site_of({target.host})[target.host]
    ids = ENQUEUE_WEBHOOKS(
        message_ids=[message.id for message in messages],
        bodies=[message.body for message in messages],
        url=url,
        hop_url=target.url,
        site=site.id,
        share=share_at(site, None),
        headers=json.dumps({"Content-Type": "application/json", signatures.SIGNATURE: signatures.to_be_signed(secret)}),
        endpoint=endpoint_id,
        max_attempts=MAX_ATTEMPTS,
    )
    transaction.on_commit(partial(backlog.activate, [site.id]), robust=True)
    return ids


def ask_anew(url: str, secret: str, endpoint_id: int) -> int:
    """Replace the queued webhooks of the endpoint that go to another URL, or name another secret; returns how many.

    In the caller's transaction, and but for those that another transaction has locked. The new ones have the same
    messages, and are due now; the old ones are cancelled. Raises as `ask` does.
    """
    as_asked = {"url": url, "request_headers__contains": {signatures.SIGNATURE: signatures.to_be_signed(secret)}}
    stale = _queued(endpoint_id).exclude(**as_asked).order_by("pk").select_for_update(skip_locked=True, no_key=True)
    ids = dict(stale.values_list("pk", f"request_headers__{signatures.ID}"))
    bodies = dict(RequestBody.objects.filter(pk__in=ids).values_list("pk", "content"))
    messages = [Message(message_id, bytes(bodies[fetch_id])) for fetch_id, message_id in ids.items()]
    if messages:
        ask(url, secret, endpoint_id, messages)
        Fetch.objects.filter(pk__in=ids).update(state=FetchState.CANCELLED, finished_at=Now())
    return len(messages)


def unfinished(endpoint_id: int, most: int) -> int:
    """Return how many of the endpoint's webhooks are unfinished, up to `most`."""
    [found] = COUNT_WEBHOOKS(endpoint=endpoint_id, most=most)
    return found


def is_gone(endpoint_id: int, since: datetime) -> bool:
    """Return whether the endpoint has answered with 410 to a webhook that was sent since then."""
    return _queued(endpoint_id).filter(status_code=GONE, started_at__gt=since).exists()


def hold(endpoint_id: int) -> int:
    """Let no queued webhook of the endpoint start, in the caller's transaction; returns how many are newly held.

    One that is in flight ends; if it is not received, it is held by another call.
    """
    return len(_change(_queued(endpoint_id).filter(not_before__lt=HELD), not_before=HELD_UNTIL))


def is_held(endpoint_id: int | None, not_before: datetime) -> bool:
    """Return whether a queued fetch waits until its endpoint is resumed."""
    return endpoint_id is not None and not_before >= HELD


def let_go(endpoint_id: int) -> None:
    """Let the webhooks of the endpoint start that were held, in the caller's transaction."""
    _wake(_queued(endpoint_id).filter(not_before__gte=HELD))


def wake(endpoint_id: int, since: datetime) -> int:
    """Let webhooks be due now that wait for another attempt, if the endpoint has received one since then.

    In the caller's transaction; returns how many there are.
    """
    received = Fetch.objects.filter(endpoint_id=endpoint_id, state=FetchState.DONE, finished_at__gt=since)
    waiting = _queued(endpoint_id).filter(not_before__gt=Now(), not_before__lt=HELD).exclude(error="")
    return _wake(waiting) if received.exists() else 0


def cancel(endpoint_id: int) -> int:
    """Cancel the queued webhooks of the endpoint, in the caller's transaction; returns how many there were."""
    return len(_change(_queued(endpoint_id), state=FetchState.CANCELLED, finished_at=Now()))


def endpoints_with_queued() -> list[int]:
    """Return the ids of the endpoints that have queued webhooks, whether these endpoints still exist or not."""
    return QUEUED_ENDPOINTS()


def last_failure(endpoint_id: int) -> LastFailure | None:
    """Return the last webhook of the endpoint that was not received."""
    of = Fetch.objects.filter(endpoint_id=endpoint_id).exclude(error="")
    waiting = of.filter(state=FetchState.QUEUED).order_by("-pk").first()
    found = waiting or of.filter(state=FetchState.FAILED).order_by("-finished_at", "-pk").first()
    return LastFailure(found.pk, found.error, is_unfinished=waiting is not None) if found else None


def _queued(endpoint_id: int) -> FetchQuerySet:
    return Fetch.objects.filter(endpoint_id=endpoint_id, state=FetchState.QUEUED)


def _wake(waiting: FetchQuerySet) -> int:
    sites = _change(waiting, not_before=Now())
    transaction.on_commit(partial(backlog.activate, {site for site in sites if site}), robust=True)
    return len(sites)


def _change(queued: FetchQuerySet, **changes: object) -> list[int | None]:
    """Change these webhooks, but for those that another transaction has locked; returns the site of each."""
    locked = queued.order_by("pk").select_for_update(skip_locked=True, no_key=True)
    sites = dict(locked.values_list("pk", "site_id"))
    Fetch.objects.filter(pk__in=sites, state=FetchState.QUEUED).update(**changes)
    return list(sites.values())
