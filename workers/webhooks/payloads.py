"""Payloads: what a webhook says of an event. It is thin: who wants more, asks for the row of its id."""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from weir.workers.events.models import Event, Subject
from weir.workers.fetches.enqueue.webhooks import Message
from weir.workers.fetches.models import Fetch

# Columns of fetches under the names that the API has for them.
OF_FETCH: Final = ("url", "status_code", "error", "incomplete", "attempts")


def messages_of(events: Sequence[Event]) -> list[Message]:
    """Return the message of each event, which has the event's id. One statement, for any number of events."""
    fetches = _fetches({event.subject_id for event in events if event.subject == Subject.FETCH})
    return [Message(str(event.id), _body(event.type, event.at, _data(event, fetches))) for event in events]


def trial_message(message_id: str, at: datetime) -> Message:
    """Return a message that tells of nothing: a receiver that gets it, gets events, too."""
    return Message(message_id, _body("webhook.test", at, {}))


def _fetches(ids: Iterable[int]) -> dict[int, dict[str, Any]]:
    found = Fetch.objects.filter(pk__in=ids).values("pk", "finished_at", *OF_FETCH)
    return {row.pop("pk"): row for row in found}


def _data(event: Event, fetches: Mapping[int, Mapping[str, Any]]) -> dict[str, object]:
    if event.subject != Subject.FETCH:
        return {"id": event.subject_id, "state": event.state, "kind": event.kind, "key": event.reference}
    row = fetches.get(event.subject_id)
    # A fetch that was retried since has ended otherwise, or not yet.
    known = row if row and row["finished_at"] == event.at else {}
    of_fetch = {name: known.get(name) for name in OF_FETCH}
    common = {"id": event.subject_id, "state": event.state, "reference": event.reference}
    return {**common, "finished_at": event.at.isoformat(), **of_fetch}


def _body(kind: str, at: datetime, data: Mapping[str, object]) -> bytes:
    said = {"type": kind, "timestamp": at.isoformat(), "data": data}
    return json.dumps(said, ensure_ascii=False, separators=(",", ":")).encode()
