"""The event log: every end of a fetch, an e-mail or an effect, in an order in which a reader can miss none.

1. Triggers on the tables of fetches, e-mails and effects write a NewEvent for each end, in the transaction of the end.
   It is there if, and only if, the end is. Its id says nothing about the order of commits: a transaction that began
   earlier, and has lower ids, may commit later.
2. `append` moves what is committed to the log, and gives each event the id that readers see. One execution at a time
   gives ids, and is committed before the next one gives higher ones. So ids become visible in their order, and the
   position in the log is one number. A transaction that stays open keeps back its own events only.
3. `events_after` reads the log from a cursor on. A reader stores the cursor together with what it has made of the
   events: if it is killed, it reads some again, with the same ids, and none is missing.

Ids are given behind the gate (weir.postgres.timeline). After PostgreSQL has forgotten commits, the recovery lets all
ids go on above those that were given, and only then `append` gives one: cursors of readers that saw more stay valid.

This is the outbox with one sequencer. The usual other order, by transaction ids up to the snapshot's xmin, would stand
still while any transaction of the whole server is open, and would begin anew in another cluster.
"""

import time
from collections.abc import Collection
from datetime import datetime
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID, uuid4

from weir.conf import settings
from weir.postgres import batches
from weir.postgres.statements import Statement
from weir.workers import cursors
from weir.workers.events.models import Event, EventLog, Subject

BATCH: Final = 10_000  # events of one execution of `append`
PURGED: Final = 5_000
WITHIN_S: Final = 5.0
MOST: Final = 1_000  # events of one reading
LARGEST_ID: Final = 2**63 - 1
Cursor: TypeAlias = str  # a place in the log; "" is its beginning


class _Read(NamedTuple):
    key: UUID
    purged_id: int
    id: int | None
    subject: str
    subject_id: int
    state: str
    kind: str
    reference: str
    at: datetime


class _Newest(NamedTuple):
    key: UUID
    id: int


class NoEvents(LookupError):
    """No events are kept."""

    def __init__(self) -> None:
        super().__init__(
            "No events are kept yet: ask again in a minute, and see that all processes have WEIR_EVENT_RETENTION."
            if settings.WEIR_EVENT_RETENTION
            else "No events are kept: set WEIR_EVENT_RETENTION, such as 604800 (seconds), for all processes of Weir."
        )


class EventsGone(LookupError):
    """Events after the cursor were deleted unread."""

    def __init__(self) -> None:
        super().__init__(
            "Events after this cursor are no longer kept: look at each fetch, e-mail or effect that you wait for, and "
            "go on without a cursor, from the oldest event that is kept."
        )


APPEND = Statement("append", returns=int, commits=True)
AFTER = Statement("after", row=_Read, commits=False)
NEWEST = Statement("newest", row=_Newest, commits=False)
PURGE = Statement("purge", returns=int, commits=True)
CLEAR = Statement("clear", returns=int, commits=True)


def append() -> int:
    """Bring a batch of committed ends to the log; returns how many. Commits by itself; raises database errors.

    Readers call it before they read. Of concurrent calls, one works, and the others return 0 at once.
    """
    [moved] = APPEND(batch=BATCH)
    return moved or 0


def catch_up() -> None:
    """Bring all ends to the log that are committed now, for WITHIN_S at most; commits by itself.

    Whoever goes on from `newest` calls this before, or gets what had ended and was not in the log yet.
    """
    until = time.monotonic() + WITHIN_S
    while append() == BATCH and time.monotonic() < until:
        pass


def events_after(cursor: Cursor, limit: int, types: Collection[str] | None = None) -> tuple[list[Event], Cursor]:
    """Return events after the cursor in the order of the log, and the cursor after them; reads only.

    Looks at no more than `limit` events. Of these, it returns those whose type is one of `types`; the cursor is after
    all of them. Where nothing follows, the cursor is the one that was given. "" begins at the oldest event.
    Runs in the caller's transaction: a cursor that is stored there stands for exactly what was done there. Raises
    NoEvents, EventsGone, and BadCursor for a text that is no cursor.
    """
    subjects = Subject.values if types is None else {name.partition(".")[0] for name in types}
    found, last = _after(cursor, limit, subjects)
    return found if types is None else [event for event in found if event.type in types], last


def _after(cursor: Cursor, limit: int, subjects: Collection[str]) -> tuple[list[Event], Cursor]:
    key, after = _decode(cursor)
    of = {
        "fetches": Subject.FETCH in subjects,
        "emails": Subject.EMAIL in subjects,
        "effects": Subject.EFFECT in subjects,
    }
    rows = AFTER(after=after, most=limit, **of)
    if not rows:
        raise NoEvents
    log = rows[0]
    if key is not None and (key != str(log.key) or after < log.purged_id):
        raise EventsGone
    found = [_event(row) for row in rows if row.id is not None]
    return found, _encode(log.key, found[-1].pk if found else max(after, log.purged_id))


def read(cursor: Cursor, limit: int, subject: Subject) -> tuple[list[Event], Cursor]:
    """Append, and return events of a subject as `events_after` does. Commits by itself; raises the same errors."""
    append()
    return _after(cursor, limit, {subject})


def newest() -> Cursor:
    """Return the cursor after all events that are in the log now: from there, only later ends come. Raises NoEvents."""
    if not (rows := NEWEST()):
        raise NoEvents
    return _encode(rows[0].key, rows[0].id)


def begin() -> None:
    """Let triggers write events from now on, if WEIR_EVENT_RETENTION says so. Commits by itself; safe to run twice."""
    if settings.WEIR_EVENT_RETENTION:
        EventLog.objects.bulk_create([EventLog(key=uuid4())], ignore_conflicts=True)


def keep() -> None:
    """Let triggers write events if WEIR_EVENT_RETENTION says so, and none otherwise; delete what is kept no longer.

    Safe to run twice or together, or killed anywhere.
    """
    retention_s = settings.WEIR_EVENT_RETENTION
    if not retention_s:
        EventLog.objects.all().delete()
        batches.delete(CLEAR, batch=PURGED, within_s=WITHIN_S)
        return
    begin()
    catch_up()
    batches.delete(PURGE, batch=PURGED, within_s=WITHIN_S, older_than=retention_s)


def _event(row: _Read) -> Event:
    return Event(
        id=row.id,
        subject=row.subject,
        subject_id=row.subject_id,
        state=row.state,
        kind=row.kind,
        reference=row.reference,
        at=row.at,
    )


def _encode(key: UUID, event_id: int) -> Cursor:
    return cursors.encode([str(key), event_id])


def _decode(cursor: Cursor) -> tuple[str | None, int]:
    """Return the key of the cursor's log, and the id of the event before it. Raises BadCursor."""
    if not cursor:
        return None, 0
    match cursors.decode(cursor):
        case [str(key), int(event_id)] if 0 <= event_id <= LARGEST_ID:
            return key, event_id
    raise cursors.BadCursor
