"""Delivering: asks for a webhook for each event, in bulk, and pauses endpoints that want no more.

1. Bring what has ended to the event log (weir.workers.events.log).
2. Lock an endpoint, and read the events after its cursor.
3. Queue a webhook for each (fetches/enqueue/webhooks.py), as far as MOST_UNFINISHED allows, and move the cursor on.

Webhooks that were in flight when their endpoint was changed, and are queued again, are asked for anew; if it was
removed, they are cancelled.

Steps 2 and 3 are one transaction: each event is asked for once. From then on its webhook is a fetch like others, at the
rate of its site: it is sent at least once, and each time with the event's id. If a receiver fails, its cursor waits.
"""

import time
from contextlib import suppress
from datetime import timedelta
from typing import Final, NamedTuple

from django.db import transaction
from django.db.models.functions import Now

from weir.logs.loggers import get_logger
from weir.postgres.statements import Statement
from weir.postgres.timeline import gate
from weir.ratelimit.sites import SitesLocked
from weir.workers.cursors import BadCursor
from weir.workers.events import log as events
from weir.workers.events.log import EventsGone, NoEvents
from weir.workers.fetches.enqueue import webhooks
from weir.workers.fetches.targets import InvalidTarget
from weir.workers.webhooks.models import Endpoint
from weir.workers.webhooks.payloads import messages_of

log = get_logger(__name__)

MOST_UNFINISHED: Final = 1_000  # webhooks of an endpoint: those of one that fails do not fill the queue
BATCH: Final = 500  # webhooks of one transaction
WITHIN_S: Final = 5.0  # seconds after which a tick leaves the rest to the next one
# After an outage, the first webhook that is received lets all others go at once. One that is refused each time has an
# attempt no more often than this for that reason.
WOKEN_EVERY: Final = timedelta(minutes=15)


class Asked(NamedTuple):
    """What was asked for of one endpoint."""

    queued: int = 0  # webhooks
    has_moved: bool = False  # whether there were events, and may be more


DELIVER_HAS_WORK = Statement("deliver_has_work", returns=bool, commits=False)


def deliver() -> int:
    """Do the three steps of the module's head for all endpoints; returns the number of webhooks that were queued.

    Safe to run twice or together: an endpoint that another transaction has locked is left to it.
    """
    gate.require()  # as asking for a webhook is final, it is asked for only by a PostgreSQL that has lost nothing
    until = time.monotonic() + WITHIN_S
    while events.append() and time.monotonic() < until:
        pass
    for endpoint_id in _removed():
        with transaction.atomic(durable=True):
            webhooks.cancel(endpoint_id)
    queued = 0
    endpoints = list(Endpoint.objects.order_by("pk").values_list("pk", flat=True))
    while endpoints and time.monotonic() < until:
        asked = {endpoint_id: _serve(endpoint_id) for endpoint_id in endpoints}
        queued += sum(one.queued for one in asked.values())
        endpoints = [endpoint_id for endpoint_id, one in asked.items() if one.has_moved]
    return queued


def has_work() -> bool:
    """Return whether a tick would find anything to do: beat asks before it sends one. Reads only."""
    if _removed():
        return True
    if not Endpoint.objects.exists():
        return False
    try:
        newest = events.newest()
    except NoEvents:
        newest = None
    [answer] = DELIVER_HAS_WORK(newest=newest, most=MOST_UNFINISHED, held=webhooks.HELD, woken_every=WOKEN_EVERY)
    return answer


def _removed() -> list[int]:
    """Return the endpoints that were removed while webhooks of theirs were in flight, which are queued again."""
    queued = webhooks.endpoints_with_queued()  # before: an endpoint is committed before it has webhooks
    if not queued:
        return []
    there = set(Endpoint.objects.filter(pk__in=queued).values_list("pk", flat=True))
    return [endpoint_id for endpoint_id in queued if endpoint_id not in there]


def _serve(endpoint_id: int) -> Asked:
    """Do what is to be done for one endpoint, in one transaction."""
    try:
        with transaction.atomic(durable=True):
            found = Endpoint.objects.filter(pk=endpoint_id).select_for_update(skip_locked=True, no_key=True)
            for endpoint in found:
                return _ask(endpoint)
    except SitesLocked:
        log.warning("webhooks_wait_for_sites", endpoint=endpoint_id)
    return Asked()


def _ask(endpoint: Endpoint) -> Asked:
    if endpoint.paused_at is None:  # those that were in flight when the endpoint was changed
        with suppress(InvalidTarget):  # which the next event tells
            webhooks.ask_anew(endpoint.url, endpoint.secret, endpoint.pk)
    if endpoint.paused_at is None and webhooks.is_gone(endpoint.pk, endpoint.resumed_at):
        _pause(endpoint)
    if endpoint.paused_at:
        webhooks.hold(endpoint.pk)
        return Asked()
    if webhooks.wake(endpoint.pk, endpoint.woken_at + WOKEN_EVERY):
        Endpoint.objects.filter(pk=endpoint.pk).update(woken_at=Now())
    room = MOST_UNFINISHED - webhooks.unfinished(endpoint.pk, MOST_UNFINISHED)
    if room <= 0:
        return Asked()
    try:
        found, cursor = events.events_after(endpoint.cursor, min(room, BATCH))
        if wanted := [event for event in found if event.type in endpoint.types or not endpoint.types]:
            webhooks.ask(endpoint.url, endpoint.secret, endpoint.pk, messages_of(wanted))
    except (BadCursor, InvalidTarget, NoEvents) as error:
        _note(endpoint, error=str(error))
        return Asked()
    except EventsGone:  # nobody can deliver them any more: it goes on with those that are left, and says so
        log.warning("webhooks_missed", endpoint=endpoint.pk)
        Endpoint.objects.filter(pk=endpoint.pk).update(cursor="", missed_at=Now())
        return Asked()
    _note(endpoint, error="", cursor=cursor)
    return Asked(len(wanted), has_moved=bool(found))


def _pause(endpoint: Endpoint) -> None:
    reason = f"it answered {webhooks.GONE}: it wants no more webhooks"
    log.warning("webhook_endpoint_gone", endpoint=endpoint.pk)
    Endpoint.objects.filter(pk=endpoint.pk).update(paused_at=Now(), pause_reason=reason)
    endpoint.paused_at = endpoint.created_at  # any time: it is paused now


def _note(endpoint: Endpoint, **changes: str) -> None:
    """Store what differs from the row."""
    if differing := {name: value for name, value in changes.items() if getattr(endpoint, name) != value}:
        Endpoint.objects.filter(pk=endpoint.pk).update(**differing)
