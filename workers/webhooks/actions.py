"""What operators change at endpoints. Each call commits by itself, with its entry in the audit trail.

All raise acting.ActRefused (weir.workers.audit) if the actor is not permitted, and UnknownEndpoint.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from django.db import transaction

from weir.workers.audit.acting import Actor, AuditedAction, State
from weir.workers.events import log as events
from weir.workers.webhooks import endpoints
from weir.workers.webhooks.endpoints import UnknownEndpoint
from weir.workers.webhooks.models import Endpoint

MAY_CHANGE: Final = "weir_webhooks.change_endpoint"
ADD: Final = AuditedAction("webhooks.add", MAY_CHANGE)
REMOVE: Final = AuditedAction("webhooks.remove", MAY_CHANGE)
PAUSE: Final = AuditedAction("webhooks.pause", MAY_CHANGE)
RESUME: Final = AuditedAction("webhooks.resume", MAY_CHANGE)
TEST: Final = AuditedAction("webhooks.test", MAY_CHANGE)


def add(actor: Actor, name: str, url: str, *, secret: str, types: Iterable[str] = (), why: str = "") -> Endpoint:
    """Make an endpoint, or change that of this name, as `endpoints.store` does."""
    ADD.allow(actor, why)
    events.begin()
    events.catch_up()  # what has ended until now is not for a new endpoint
    with transaction.atomic(durable=True):
        endpoints.lock_names()
        before = Endpoint.objects.select_for_update().filter(name=name).first()
        after = endpoints.store(name, url, secret=secret, types=types)
        if before is None or _settings(before) != _settings(after):
            ADD.record(actor, _named(after), why, before=_settings(before) if before else None, after=_settings(after))
    return after


def remove(actor: Actor, endpoint_id: int, *, why: str = "") -> None:
    """Remove an endpoint; its webhooks that have not started are cancelled."""
    REMOVE.allow(actor, why)
    with transaction.atomic(durable=True):
        found = _locked(endpoint_id)
        REMOVE.record(actor, _named(found), why, before=_settings(found), after=None)
        endpoints.remove(found)


def pause(actor: Actor, endpoint_id: int, *, why: str = "") -> None:
    """Send nothing there until the endpoint is resumed."""
    PAUSE.allow(actor, why)
    with transaction.atomic(durable=True):
        found = _locked(endpoint_id)
        with PAUSE.recorded(actor, _named(found), why, state=lambda: _waits(endpoint_id)):
            endpoints.pause(found)


def resume(actor: Actor, endpoint_id: int, *, why: str = "") -> None:
    """Send what has waited, and go on."""
    RESUME.allow(actor, why)
    with transaction.atomic(durable=True):
        found = _locked(endpoint_id)
        with RESUME.recorded(actor, _named(found), why, state=lambda: _waits(endpoint_id)):
            endpoints.resume(found)


def send_test(actor: Actor, endpoint_id: int, *, why: str = "") -> int:
    """Send a webhook that tells of nothing; returns the id of its fetch. Raises what `endpoints.send_trial` raises."""
    TEST.allow(actor, why)
    with transaction.atomic(durable=True):
        found = _locked(endpoint_id)
        fetch = endpoints.send_trial(found)
        TEST.record(actor, _named(found), why, before=None, after=None)
    return fetch


def _locked(endpoint_id: int) -> Endpoint:
    if (found := Endpoint.objects.select_for_update().filter(pk=endpoint_id).first()) is None:
        raise UnknownEndpoint(endpoint_id)
    return found


def _named(endpoint: Endpoint) -> str:
    return f"endpoint {endpoint.pk}"


def _waits(endpoint_id: int) -> State:
    return {"paused": not Endpoint.objects.active().filter(pk=endpoint_id).exists()}


def _settings(endpoint: Endpoint) -> Mapping[str, object]:
    settings = {name: getattr(endpoint, name) for name in ("name", "url", "secret")}
    return {**settings, "types": endpoint.types or "all"}
