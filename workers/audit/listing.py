"""The audit trail, page by page, and all of it as JSON lines."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

from django.db.models import QuerySet

from weir.conf.texts.moments import parse_moment
from weir.workers import cursors
from weir.workers.audit.models import Entry

A_PAGE: Final = 100
BATCH: Final = 1_000
REASONS: Final = 8  # that are offered for an act
LOOKED_AT: Final = 100  # entries that are looked at for them
LARGEST_ID: Final = 2**63 - 1
NAMED: Final = ("actor", "action", "target")
TIMES: Final = ("since", "until")


@dataclass(frozen=True, kw_only=True, slots=True)
class EntryFilters:
    """Selects entries by their actor, action, target ("" stands for all) and time: from `since` to `until`."""

    actor: str = ""
    action: str = ""
    target: str = ""
    since: datetime | None = None
    until: datetime | None = None


class EntriesPage(NamedTuple):
    """A page of entries, and the cursor of the next page; "" if this is the last page."""

    entries: list[Entry]
    next: str


def read(texts: Mapping[str, str], now: datetime) -> EntryFilters:
    """Read the filters of a query string; "" counts as left out.

    `since` and `until` are times in ISO format, or how long ago: 2h. Raises ValueError for another text.
    """
    named: dict[str, Any] = {name: texts[name] for name in NAMED}
    named |= {name: parse_moment(name, text, now) for name in TIMES if (text := texts[name])}
    return EntryFilters(**named)


def page(wanted: EntryFilters, cursor: str = "") -> EntriesPage:
    """Return up to A_PAGE entries after the cursor, the newest first. Raises BadCursor."""
    found = list(_after(_listed(wanted), cursor)[: A_PAGE + 1])
    shown = found[:A_PAGE]
    return EntriesPage(shown, cursors.encode([shown[-1].pk]) if len(found) > A_PAGE else "")


def lines(wanted: EntryFilters) -> Iterator[dict[str, Any]]:
    """Yield the selected entries as data, the oldest first. Reads them in batches, in the order of their ids."""
    entries, last = _listed(wanted), 0
    while batch := list(entries.filter(pk__gt=last).order_by("pk")[:BATCH]):
        yield from map(as_data, batch)
        last = batch[-1].pk


def last_reasons(action: str) -> list[str]:
    """Return the reasons that were given last for an action, each once, the newest first."""
    found = Entry.objects.filter(action=action).order_by("-pk").values_list("why", flat=True)[:LOOKED_AT]
    return list(dict.fromkeys(filter(None, found)))[:REASONS]


def as_data(entry: Entry) -> dict[str, Any]:
    """Return an entry as data that JSON can express, also as the columns of the export."""
    fields = ("actor", "door", "action", "target", "why", "before", "after", "correlation_id")
    return {"id": entry.pk, "at": entry.at.isoformat(), **{name: getattr(entry, name) for name in fields}}


def _listed(wanted: EntryFilters) -> QuerySet[Entry]:
    named = {name: value for name in NAMED if (value := getattr(wanted, name))}
    entries: QuerySet[Entry] = Entry.objects.filter(**named).order_by("-pk")
    if wanted.since is not None:
        entries = entries.filter(at__gte=wanted.since)
    return entries if wanted.until is None else entries.filter(at__lte=wanted.until)


def _after(entries: QuerySet[Entry], cursor: str) -> QuerySet[Entry]:
    if not cursor:
        return entries
    match cursors.decode(cursor):
        case [int(pk)] if abs(pk) <= LARGEST_ID:
            return entries.filter(pk__lt=pk)
    raise cursors.BadCursor
