"""Endpoints: made, changed, paused and removed, in the caller's transaction."""

import uuid
from collections.abc import Iterable
from typing import Final

from django.db import transaction
from django.db.models.functions import Now
from django.utils import timezone

from weir.conf.texts.suggestions import no_such_word
from weir.postgres.statements import Statement
from weir.signatures import webhooks as signatures
from weir.workers.events import log as events
from weir.workers.fetches.addresses import allowed_by_settings
from weir.workers.fetches.enqueue import webhooks
from weir.workers.fetches.targets import InvalidTarget, parse_target
from weir.workers.webhooks.models import LONGEST_NAME, LONGEST_URL, Endpoint
from weir.workers.webhooks.payloads import trial_message

TYPES: Final = (
    *(f"fetch.{state}" for state in ("done", "failed", "cancelled")),
    *(f"email.{state}" for state in ("sent", "failed", "unknown", "bounced", "cancelled", "suppressed", "expired")),
    *(f"effect.{state}" for state in ("done", "failed", "unknown", "cancelled", "expired")),
)
MOST: Final = 100  # endpoints: a tick looks at each

LOCK_NAMES = Statement("lock_names", commits=False)


class UnknownEndpoint(LookupError):
    """There is no endpoint with this id."""

    def __init__(self, endpoint_id: int) -> None:
        super().__init__(f"There is no endpoint {endpoint_id}.")


def lock_names() -> None:
    """Let no other transaction make or change an endpoint until the caller's ends."""
    LOCK_NAMES()


def store(name: str, url: str, *, secret: str, types: Iterable[str] = ()) -> Endpoint:
    """Make an endpoint, or change that of this name. `secret` is the name of a secret (weir.conf.secrets).

    A new one gets the events that end from now on. A changed one stays where it is; its webhooks that are queued go to
    the new URL, too, signed by the new secret. Raises ValueError for a value that cannot be used, NoEvents if no events
    are kept, and SitesLocked as `webhooks.ask` does.
    """
    if not 1 <= len(name) <= LONGEST_NAME or not name.isprintable():
        raise ValueError(f"name must have 1 to {LONGEST_NAME} printable characters.")
    if signatures.named_in(signatures.to_be_signed(secret)) is None:
        raise ValueError("secret must be the name of a secret: letters, digits and underscores, 100 at most.")
    try:
        target = parse_target(url, allowed_by_settings())
    except InvalidTarget as error:
        raise ValueError(f"The URL cannot be used: {error}.") from error
    if len(target.url) > LONGEST_URL:
        raise ValueError(f"url must have at most {LONGEST_URL:,} characters.")
    changes = {"url": target.url, "secret": secret, "types": _types(types)}
    with transaction.atomic():
        if Endpoint.objects.filter(name=name).update(**changes):
            return _with_its_webhooks(Endpoint.objects.get(name=name))
        if Endpoint.objects.count() >= MOST:
            raise ValueError(f"There are {MOST} endpoints already: remove one.")
        return Endpoint.objects.create(name=name, cursor=events.newest(), **changes)


def remove(endpoint: Endpoint) -> None:
    """Remove an endpoint, and cancel its webhooks that have not started."""
    webhooks.cancel(endpoint.pk)
    endpoint.delete()


def pause(endpoint: Endpoint) -> None:
    """Send nothing to the endpoint until it is resumed; events wait, as long as they are kept."""
    Endpoint.objects.filter(pk=endpoint.pk, paused_at=None).update(paused_at=Now(), pause_reason="")
    webhooks.hold(endpoint.pk)


def resume(endpoint: Endpoint) -> None:
    """Send what has waited, and go on."""
    Endpoint.objects.filter(pk=endpoint.pk).exclude(paused_at=None).update(
        paused_at=None, pause_reason="", resumed_at=Now()
    )
    webhooks.let_go(endpoint.pk)


def send_trial(endpoint: Endpoint) -> int:
    """Queue a webhook that tells of nothing; returns the id of its fetch.

    Raises ValueError if the endpoint is paused, or the settings forbid its URL, and SitesLocked as webhooks.ask does.
    """
    if endpoint.paused_at:
        raise ValueError(f"Endpoint {endpoint.pk} is paused: resume it first.")
    try:
        [fetch] = webhooks.ask(
            endpoint.url, endpoint.secret, endpoint.pk, [trial_message(f"test-{uuid.uuid4()}", timezone.now())]
        )
    except InvalidTarget as error:
        raise ValueError(f"The URL cannot be used: {error}.") from error
    return fetch


def _with_its_webhooks(changed: Endpoint) -> Endpoint:
    """Have its queued webhooks sent as it now says, or held if it is paused."""
    webhooks.ask_anew(changed.url, changed.secret, changed.pk)
    if changed.paused_at:
        webhooks.hold(changed.pk)
    return changed


def _types(given: Iterable[str]) -> list[str]:
    types = list(dict.fromkeys(given))
    for each in types:
        if each not in TYPES:
            raise ValueError(no_such_word(each, TYPES, "type"))
    return types
