"""Endpoint list: all endpoints, of which there are not many, and what is told of each."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from weir.workers.events import log as events
from weir.workers.fetches.enqueue import webhooks
from weir.workers.fetches.enqueue.webhooks import LastFailure
from weir.workers.webhooks.delivering import MOST_UNFINISHED
from weir.workers.webhooks.endpoints import UnknownEndpoint
from weir.workers.webhooks.models import Endpoint

MOST_BEHIND: Final = 1_000  # events that are counted; one more stands for more
PAUSED: Final = "paused"
FAILING: Final = "failing"
DELIVERING: Final = "delivering"


@dataclass(frozen=True, kw_only=True, slots=True)
class ListedEndpoint:
    """An endpoint, and how far its events have come."""

    row: Endpoint
    behind: int  # events that are not asked for yet, up to MOST_BEHIND + 1, whatever their types
    unfinished: int  # its webhooks that are asked for, and not received yet
    failure: LastFailure | None  # the last of these, or the last that has failed

    @property
    def state(self) -> str:
        """Return `paused`, `failing` or `delivering`."""
        if self.row.paused_at:
            return PAUSED
        return FAILING if self.row.error or (self.failure and self.failure.is_unfinished) else DELIVERING

    @property
    def error(self) -> str:
        """Return why it is paused, or what is wrong."""
        return self.row.pause_reason or self.row.error or (self.failure.error if self.failure else "")


def endpoint_list() -> list[ListedEndpoint]:
    """Return all endpoints, in the order of their names."""
    return [_listed(row) for row in Endpoint.objects.order_by("name")]


def endpoint_with(endpoint_id: int) -> ListedEndpoint:
    """Return the endpoint. Raises UnknownEndpoint."""
    if (found := Endpoint.objects.filter(pk=endpoint_id).first()) is None:
        raise UnknownEndpoint(endpoint_id)
    return _listed(found)


def as_data(listed: ListedEndpoint) -> dict[str, object]:
    """Return an endpoint for machines."""
    row = listed.row
    return {
        "id": row.pk,
        "name": row.name,
        "url": row.url,
        "secret": row.secret,
        "types": row.types,
        "state": listed.state,
        "error": listed.error,
        "failed_fetch": listed.failure and listed.failure.fetch_id,
        "behind": listed.behind,
        "unfinished": listed.unfinished,
        "created_at": row.created_at.isoformat(),
        "paused_at": _text(row.paused_at),
        "missed_at": _text(row.missed_at),
    }


def _listed(row: Endpoint) -> ListedEndpoint:
    return ListedEndpoint(
        row=row,
        behind=_behind(row),
        unfinished=webhooks.unfinished(row.pk, MOST_UNFINISHED),
        failure=webhooks.last_failure(row.pk),
    )


def _behind(row: Endpoint) -> int:
    try:
        found, _ = events.events_after(row.cursor, MOST_BEHIND + 1)
    except events.NoEvents:
        return 0
    except events.EventsGone:
        return MOST_BEHIND + 1
    return len(found)


def _text(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment else None
