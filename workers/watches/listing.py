"""Watch list: watches by host and state, a page at a time, however many there are; and what is told of each.

A page is read by an index, from where the last one stopped (keyset), the newest first.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

from django.db import transaction

from weir.postgres import planner
from weir.workers import cursors
from weir.workers.watches.models import Watch, WatchQuerySet
from weir.workers.watches.watching import hash_of

ROWS: Final = 100
LARGEST_ID: Final = 2**63 - 1
FAILING: Final = "failing"
PAUSED: Final = "paused"
STATES: Final = (FAILING, PAUSED)  # that a list can be asked for


class UnknownWatch(LookupError):
    """There is no watch with this id."""

    def __init__(self, watch_id: int) -> None:
        super().__init__(f"There is no watch {watch_id}.")


@dataclass(frozen=True, kw_only=True, slots=True)
class WatchFilters:
    """Selects watches; "" stands for all."""

    host: str = ""
    state: str = ""  # of STATES
    key: str = ""


class WatchPage(NamedTuple):
    """Some watches of a list, and the cursor of the next page; None at the end."""

    watches: list[Watch]
    next: str | None


def watch_list(wanted: WatchFilters, cursor: str | None = None, *, most: int = ROWS) -> WatchPage:
    """Return the watches that the filters name, the newest first, from the cursor on. Raises BadCursor."""
    with transaction.atomic():
        planner.in_index_order()
        found = list(_after(_filtered(wanted), cursor).order_by("-pk")[: most + 1])
    shown = found[:most]
    return WatchPage(shown, cursors.encode([shown[-1].pk]) if len(found) > most else None)


def watch_with(watch_id: int) -> Watch:
    """Return the watch. Raises UnknownWatch."""
    if (found := Watch.objects.filter(pk=watch_id).first()) is None:
        raise UnknownWatch(watch_id)
    return found


def state_of(watch: Watch) -> str:
    """Return `paused`, `failing` or `watching`."""
    return PAUSED if watch.next_at is None else FAILING if watch.failing_since else "watching"


def as_data(watch: Watch) -> dict[str, object]:
    """Return a watch for machines."""
    return {
        "id": watch.pk,
        "key": watch.key,
        "url": watch.url,
        "state": state_of(watch),
        "every_s": watch.every.total_seconds(),
        "period_s": watch.period.total_seconds(),
        "jitter": watch.jitter,
        "shortest_s": watch.shortest and watch.shortest.total_seconds(),
        "longest_s": watch.longest and watch.longest.total_seconds(),
        "priority": watch.priority,
        "revalidate": watch.revalidate,
        "tell_first": watch.tell_first,
        "on_change": watch.on_change,
        "share": watch.share,
        "next_at": _text(watch.next_at),
        "asked_at": _text(watch.asked_at),
        "fetch": watch.fetch_id,
        "judged_at": _text(watch.judged_at),
        "changed_at": _text(watch.changed_at),
        "changes": watch.changes,
        "body_of": watch.body_id,
        "error": watch.error,
        "failing_since": _text(watch.failing_since),
        "created_at": _text(watch.created_at),
    }


def _filtered(wanted: WatchFilters) -> WatchQuerySet:
    found: WatchQuerySet = Watch.objects.all()
    if wanted.state:
        found = found.failing() if wanted.state == FAILING else found.paused()
    if wanted.host:
        found = found.filter(host=wanted.host)
    if wanted.key:
        found = found.filter(dedupe_key=hash_of(wanted.key))
    return found


def _after(watches: WatchQuerySet, cursor: str | None) -> WatchQuerySet:
    if not cursor:
        return watches
    match cursors.decode(cursor):
        case [int(pk)] if abs(pk) <= LARGEST_ID:
            return watches.filter(pk__lt=pk)
    raise cursors.BadCursor


def _text(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment else None
