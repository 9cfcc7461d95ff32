"""Operations on the event log: which fetches, e-mails and effects have ended, without missing one."""

from django.http import HttpRequest
from ninja import Query, Router

from weir.api.http.problems import EVENTS_GONE, INVALID, NO_EVENTS
from weir.api.operations.operation import operation, refused
from weir.api.schemas.events import (
    NEWEST,
    EffectEvent,
    EffectEvents,
    EmailEvent,
    EmailEvents,
    EventQuery,
    FetchEvent,
    FetchEvents,
)
from weir.api.tokens import scopes
from weir.workers.cursors import BadCursor
from weir.workers.events import log
from weir.workers.events.models import Event, Subject

router = Router(tags=["events"])


@operation(
    router,
    "GET",
    "/fetches/ended",
    scope=scopes.SEE_FETCHES,
    answers={200: FetchEvents},
    refusals=(NO_EVENTS, EVENTS_GONE),
)
def list_ended_fetches(request: HttpRequest, query: Query[EventQuery]) -> FetchEvents:
    """List which fetches have ended after the cursor; none ever comes before a cursor that you were given.

    Keep `next` together with what you have done, and go on there: you miss no end, and read none twice.
    """
    events, after = _read(query, Subject.FETCH)
    rows = [
        FetchEvent.model_construct(
            id=row.pk, type=row.type, fetch=row.subject_id, state=row.state, reference=row.reference, at=row.at
        )
        for row in events
    ]
    return FetchEvents.model_construct(events=rows, next=after)


@operation(
    router,
    "GET",
    "/emails/ended",
    scope=scopes.SEE_EMAILS,
    answers={200: EmailEvents},
    refusals=(NO_EVENTS, EVENTS_GONE),
)
def list_ended_emails(request: HttpRequest, query: Query[EventQuery]) -> EmailEvents:
    """List which e-mails have ended after the cursor, as for fetches."""
    events, after = _read(query, Subject.EMAIL)
    rows = [
        EmailEvent.model_construct(
            id=row.pk, type=row.type, email=row.subject_id, state=row.state, kind=row.kind, key=row.reference, at=row.at
        )
        for row in events
    ]
    return EmailEvents.model_construct(events=rows, next=after)


@operation(
    router,
    "GET",
    "/effects/ended",
    scope=scopes.SEE_EFFECTS,
    answers={200: EffectEvents},
    refusals=(NO_EVENTS, EVENTS_GONE),
)
def list_ended_effects(request: HttpRequest, query: Query[EventQuery]) -> EffectEvents:
    """List which effects have ended, or are unknown, after the cursor, as for fetches."""
    events, after = _read(query, Subject.EFFECT)
    rows = [
        EffectEvent.model_construct(
            id=row.pk,
            type=row.type,
            effect=row.subject_id,
            state=row.state,
            kind=row.kind,
            key=row.reference,
            at=row.at,
        )
        for row in events
    ]
    return EffectEvents.model_construct(events=rows, next=after)


def _read(query: EventQuery, subject: Subject) -> tuple[list[Event], str]:
    """Return the events that the query asks for, and the cursor after them. Raises Problem."""
    with refused(NO_EVENTS, log.NoEvents), refused(EVENTS_GONE, log.EventsGone), refused(INVALID, BadCursor):
        if query.after == NEWEST:
            log.catch_up()
            return [], log.newest()
        return log.read(query.after, query.limit, subject)
