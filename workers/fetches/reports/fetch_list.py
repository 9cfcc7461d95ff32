"""Fetch list: fetches by state, site, error, status, URL and time, a page at a time, however many there are.

    page = fetch_list(Filters(states=frozenset({"failed"})))
    fetch_list(Filters(states=frozenset({"failed"})), page.next)

1. The filters determine the indexes by which the list is read, one after the other: its ways. Held fetches come first,
   then queued ones, then those that ended, the last end first. Without filters, and with nothing but a part of URLs,
   all fetches come, the newest first, and so do those of a reference. Those of a batch come state by state, failed ones
   before done ones.
2. Each way is read on from where the last page stopped (keyset). Its rows are compared with the filters that its index
   does not serve (sql/fetch_list.sql). A page ends after `most` matches, or after LOOKED_AT rows. It then has fewer
   than `most` fetches and says so, and its cursor goes on from there. Fewer rows are looked at if neighbours in the
   index are far apart in the table.
3. The rows of the page are read by their ids.

The cost of a page depends neither on its number nor on the number of fetches. A fetch that changes its state between
two pages may be in both of them, or in none.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

from django.db import transaction

from weir.conf.texts.moments import EARLIEST
from weir.postgres import planner, statements
from weir.postgres.statements import Statement
from weir.ratelimit.models import PAUSED_FOREVER
from weir.workers import cursors
from weir.workers.fetches.models import FINAL, HELD, URL_KEY, FetchState
from weir.workers.fetches.reports.fetch_filters import Filters, UrlMatch

ROWS: Final = 100  # fetches of a page, by default
LOOKED_AT: Final = 20_000  # rows that are looked at for one page: some 50 ms
LOOKED_AT_SCATTERED: Final = 5_000  # rows that may have to be read from as many places of a disk: half a second
MOST_COUNTED: Final = 10_000
LARGEST_ID: Final = 2**63 - 1
LARGEST_PRIORITY: Final = 2**15
LAST_CHARACTER: Final = "\U0010ffff"
# Ways whose rows may lie far apart.
SCATTERED: Final = frozenset({"not done", "ended at site", "by URL", "by reference"})
OF_BATCH: Final = "batch "  # before the state: the ways by which the fetches of a batch are read
STATES_OF_BATCH: Final = ("running", "reserved", "queued", "failed", "cancelled", "done")
NOT_DONE: Final = frozenset({FetchState.FAILED.value, FetchState.CANCELLED.value})


class ListedFetch(NamedTuple):
    """A fetch of a page."""

    id: int
    url: str
    state: str
    site: str  # "" if it has none, or its site was deleted
    status_code: int | None
    error: str
    incomplete: str
    attempts: int
    max_attempts: int
    priority: int
    is_robots: bool
    share: str
    reference: str
    not_before: datetime
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    lateness_ms: float | None
    elapsed_ms: float | None


class Looked(NamedTuple):
    """A row that matches, or the last one that was looked at."""

    id: int
    finished_at: datetime | None
    priority: int
    not_before: datetime
    created_at: datetime
    url_key: str
    place: int
    matches: bool


FETCH_LIST = Statement("fetch_list", row=Looked, commits=False)
LISTED_FETCHES = Statement("listed_fetches", row=ListedFetch, commits=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class FetchPage:
    """Some fetches of a list."""

    fetches: Sequence[ListedFetch]
    next: str | None  # the cursor of the next page; None at the end of the list
    looked_at: int | None  # how many rows were looked at, if the page is short although the list goes on

    @property
    def note(self) -> str:
        """Return the sentence about a short page, or ""."""
        return f"{self.looked_at:,} fetches were looked at: go on for more." if self.looked_at else ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Count:
    """How many fetches a list has: `fetches`, or more."""

    fetches: int
    is_more: bool

    def __str__(self) -> str:
        return f"{self.fetches:,}{'+' if self.is_more else ''}"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Place:
    """The row of a way after which the list goes on."""

    way: str
    id: int
    finished_at: datetime = PAUSED_FOREVER
    priority: int = LARGEST_PRIORITY
    not_before: datetime = EARLIEST
    created_at: datetime = PAUSED_FOREVER
    url_key: str = LAST_CHARACTER

    def __post_init__(self) -> None:
        """Refuse values that no row has, because cursors come from outside."""
        is_number = 0 <= self.id <= LARGEST_ID and -LARGEST_PRIORITY <= self.priority <= LARGEST_PRIORITY
        zones = {moment.tzinfo for moment in (self.finished_at, self.not_before, self.created_at)}
        if not is_number or not cursors.is_text(self.url_key) or None in zones:
            raise cursors.BadCursor


def fetch_list(filters: Filters, cursor: str | None = None, *, most: int = ROWS) -> FetchPage:
    """Return the fetches that meet the filters, from the cursor of the last page on. Reads only; at most nine queries.

    Raises BadCursor, a ValueError.
    """
    with transaction.atomic():
        found, place, looked_at = _read_on(filters, cursor, most)
        rows = listed(found)
    is_short = place is not None and len(found) < most
    return FetchPage(fetches=rows, next=_text(place) if place else None, looked_at=looked_at if is_short else None)


def listed(ids: Sequence[int]) -> list[ListedFetch]:
    """Return these fetches, in the order of `ids`; fetches that were deleted are left out."""
    return LISTED_FETCHES(ids=statements.bigints(ids)) if ids else []


def count(filters: Filters) -> Count:
    """Count the fetches that meet the filters, up to MOST_COUNTED, and as far as LOOKED_AT rows show."""
    with transaction.atomic():
        found, place, _ = _read_on(filters, None, MOST_COUNTED)
    return Count(fetches=len(found), is_more=place is not None)


def _read_on(filters: Filters, cursor: str | None, most: int) -> tuple[list[int], _Place | None, int]:
    """Return the ids of the next `most` fetches, the place after them (None: the end), and how many were looked at."""
    ways = _ways(filters)
    is_near = SCATTERED.isdisjoint(ways) and filters.batch is None
    look = LOOKED_AT if is_near else min(LOOKED_AT, LOOKED_AT_SCATTERED)
    place = _read(cursor, ways) if cursor else _start(ways[0]) if ways else None
    planner.in_index_order(sorts_equals="ended" in ways)
    found: list[int] = []
    looked_at = 0
    while place is not None:
        wanted, left = most - len(found), look - looked_at
        rows = FETCH_LIST(**_parameters(filters, place, left, wanted + 1))
        looked_at += rows[-1].place if rows else 0
        matching = [row for row in rows if row.matches]
        found += [row.id for row in matching[:wanted]]
        if len(matching) > wanted:
            return found, _behind(place.way, matching[wanted - 1]), looked_at
        if rows and rows[-1].place == left:
            return found, _behind(place.way, rows[-1]), looked_at
        place = next((_start(way) for way in ways[ways.index(place.way) + 1 :]), None)
        if place is not None and len(found) == most:
            return found, place, looked_at
    return found, None, looked_at


def _ways(filters: Filters) -> list[str]:
    """Return the ways of the list: the indexes by which it is read, one after the other."""
    states = filters.wanted
    held = ["held"] if states & set(HELD) else []
    if filters.url and filters.url_match is not UrlMatch.PART:
        return [*held, *(["by URL"] if states - set(HELD) else [])]
    if filters.batch is not None:
        return [f"{OF_BATCH}{state}" for state in STATES_OF_BATCH if state in states]
    if filters.reference or filters == Filters(url=filters.url, url_match=filters.url_match):
        return ["by reference" if filters.reference else "newest"]
    queued = ["queued" if filters.site is None else "queue"] if FetchState.QUEUED in states else []
    ended = states.intersection(FINAL)
    if not ended:
        return [*held, *queued]
    if filters.site is not None:
        return [*held, *queued, "ended at site"]
    return [*held, *queued, "not done" if ended <= NOT_DONE else "ended"]


def _parameters(filters: Filters, place: _Place, look: int, most: int) -> dict[str, Any]:
    lowest = filters.url[:URL_KEY]
    is_of_batch = place.way.startswith(OF_BATCH)
    return {
        "way": OF_BATCH.strip() if is_of_batch else place.way,
        "of_state": place.way.removeprefix(OF_BATCH) if is_of_batch else "",
        "batch": filters.batch,
        "id": place.id,
        "finished_at": place.finished_at,
        "priority": place.priority,
        "not_before": place.not_before,
        "created_at": place.created_at,
        "url_key": place.url_key,
        "look": look,
        "most": most,
        "states": sorted(filters.wanted),
        "site": filters.site,
        "url": filters.url,
        "url_match": str(filters.url_match),
        "error": filters.error,
        "status": filters.status,
        "since": filters.since or EARLIEST,
        "until": filters.until or PAUSED_FOREVER,
        "share": filters.share,
        "reference": filters.reference,
        "lowest": lowest,
        "highest": lowest if filters.url_match is UrlMatch.EXACT else lowest + LAST_CHARACTER,
    }


def _start(way: str) -> _Place:
    return _Place(way=way, id=0 if way == "queue" else LARGEST_ID)


def _behind(way: str, row: Looked) -> _Place:
    return _Place(
        way=way,
        id=row.id,
        finished_at=row.finished_at or PAUSED_FOREVER,
        priority=row.priority,
        not_before=row.not_before,
        created_at=row.created_at,
        url_key=row.url_key,
    )


def _text(place: _Place) -> str:
    """Return the cursor: the values of the columns by which the way is ordered, encoded."""
    match place.way:
        case "queue":
            key: list[object] = [place.priority, place.not_before.isoformat()]
        case "ended" | "not done" | "ended at site":
            key = [place.finished_at.isoformat()]
        case "queued":
            key = [place.created_at.isoformat()]
        case "by URL":
            key = [place.url_key]
        case _:
            key = []
    return cursors.encode([place.way, place.id, *key])


def _read(cursor: str, ways: Sequence[str]) -> _Place:
    try:
        match cursors.decode(cursor):
            case ["queue" as way, int(id_), int(priority), str(moment)] if way in ways:
                return _Place(way=way, id=id_, priority=priority, not_before=datetime.fromisoformat(moment))
            case ["ended" | "not done" | "ended at site" as way, int(id_), str(moment)] if way in ways:
                return _Place(way=way, id=id_, finished_at=datetime.fromisoformat(moment))
            case ["by URL" as way, int(id_), str(url_key)] if way in ways:
                return _Place(way=way, id=id_, url_key=url_key)
            case ["queued" as way, int(id_), str(moment)] if way in ways:
                return _Place(way=way, id=id_, created_at=datetime.fromisoformat(moment))
            case ["newest" | "held" | "by reference" as way, int(id_)] if way in ways:
                return _Place(way=way, id=id_)
            case [str(way), int(id_)] if way.startswith(OF_BATCH) and way in ways:
                return _Place(way=way, id=id_)
    except ValueError as error:  # the cursor has a wrong time, or a text that cannot be encoded
        raise cursors.BadCursor from error
    raise cursors.BadCursor
