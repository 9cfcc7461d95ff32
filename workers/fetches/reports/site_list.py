"""Site list: the sites for operators, with rates, backlogs and states, a page at a time.

    counted = backlogs()
    site_list(SiteFilters(sort="backlog"), counted=counted)

1. `backlogs` counts the queue, once for all sites: some 0.3 s for a million fetches. Callers may keep it.
2. Sites are read in the order of an index, which the filters determine, in pieces, from where the last page stopped
   (sql/site_list.sql).
3. The state of each site, which depends on its backlog, too, and the filters that the index does not serve are judged
   here. A page ends after ROWS sites that match, or after LOOKED_AT sites. It then has fewer than ROWS sites and says
   so, and its cursor goes on from there.
"""

import math
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from itertools import islice
from typing import Final, NamedTuple

from django.db import transaction

from weir.conf.texts.suggestions import no_such_word
from weir.postgres import planner, statements
from weir.postgres.statements import Statement
from weir.ratelimit.models import PAUSED_FOREVER, TRIED_AGAIN, next_try
from weir.workers import cursors

ROWS: Final = 100  # sites of a page
LOOKED_AT: Final = 20_000  # sites that are read for one page
PIECE: Final = 1_000  # sites of one query
MOST_QUEUED: Final = 2_000_000  # queued fetches that are counted
QUEUE_PIECE: Final = 200_000  # queued fetches that one statement counts
MOST_SLOTS: Final = 100_000  # slots that are looked at: a minute's worth
LATELY_S: Final = 60.0  # seconds over which the seen rate is counted
STATES: Final = ("paused", "unreachable", "backed off", "resting", "busy", "idle")
SORTS: Final = ("name", "backlog", "refusals")
HELD: Final = frozenset({"paused", "unreachable", "backed off", "resting"})
LONGEST_SEARCH: Final = 300
LAST_CHARACTER: Final = "\U0010ffff"
ANY_LEVEL: Final = 2**15 - 1
LARGEST: Final = 2**63 - 1


class SiteCount(NamedTuple):
    """How many fetches of a site wait, or have started lately."""

    site_id: int
    fetches: int


class ListedSite(NamedTuple):
    """The row of a site."""

    id: int
    name: str
    interval: timedelta
    written_rate: str
    effective_interval: timedelta  # longer than `interval` if robots.txt asks for it
    spacing: timedelta
    burst: int
    max_concurrency: int | None
    covers_subdomains: bool
    obeys_robots: bool | None  # None: as WEIR_OBEY_ROBOTS says
    refusing: list[int] | None  # statuses with which it refuses; None: the usual ones
    paused_until: datetime | None  # may be over
    backed_off_until: datetime | None  # may be over
    refused_until: datetime | None  # not None: the site is not backed off, but rests, because a quota is used up
    backoff_error: str  # why the site is, or was, unreachable
    backoff_reason: str  # what the site answered when it refused, or when a quota was used up
    backoff_level: int  # back-offs in a row
    starts_out_of_time: int
    out_of_time_at: datetime | None  # the last of these starts
    next_start: datetime
    due_at: datetime | None
    held_state: str | None  # one of HELD; None: nothing holds it
    is_silent: bool  # it has answered nothing since its last refusal
    now: datetime


BACKLOGS = Statement("backlogs", row=SiteCount, commits=False)
SITE_LIST = Statement("site_list", row=ListedSite, commits=False)
USED_STARTS = Statement("used_starts", row=SiteCount, commits=False)


@dataclass(frozen=True)
class Backlogs:
    """How many fetches wait at each site, and how many starts it used in the last minute, at one moment."""

    queued: Mapping[int, int] = field(default_factory=dict)  # by the site's id; includes fetches that are not due yet
    started: Mapping[int, int] = field(default_factory=dict)  # a start counts once its outcome is stored
    is_whole: bool = True  # false if more fetches are queued than were counted

    @cached_property
    def longest_first(self) -> Sequence[int]:
        """Return the ids of the sites at which fetches wait, the longest backlog first."""
        return sorted(self.queued, key=lambda site: (-self.queued[site], site))


@dataclass(frozen=True, kw_only=True, slots=True)
class SiteFilters:
    """Which sites are meant, in which order."""

    search: str = ""  # the beginning of names; or their end, if it begins with a dot
    state: str = ""
    sort: str = "name"

    def __post_init__(self) -> None:
        if self.state and self.state not in STATES:
            raise ValueError(no_such_word(self.state, STATES, "state"))
        if self.sort not in SORTS:
            raise ValueError(no_such_word(self.sort, SORTS, "sort"))
        if len(self.search) > LONGEST_SEARCH or not cursors.is_text(self.search):
            raise ValueError(f"search must be text of at most {LONGEST_SEARCH} characters.")

    def meets(self, site: "SiteStatus") -> bool:
        """Return whether the site is meant."""
        text = self.search.lower()
        is_found = site.row.name.endswith(text) if text.startswith(".") else site.row.name.startswith(text)
        return is_found and self.state in {"", site.state}


@dataclass(frozen=True, kw_only=True, slots=True)
class SiteStatus:
    """One site, at the moment at which the database was asked."""

    row: ListedSite
    backlog: int  # queued fetches, including those that are not due yet
    started: int  # starts that it used in the last minute

    @property
    def reserved_for_s(self) -> float:
        """Return in how many seconds the site's next free start is."""
        return max(0.0, (self.row.next_start - self.row.now).total_seconds())

    @property
    def held_for_s(self) -> float:
        """Return in how many seconds the pause or rest ends, or the site is tried again; 0 if it is tried now."""
        ends = {"paused": self.row.paused_until, "resting": self.row.backed_off_until}
        until = ends.get(self.state, self.next_try)
        return max(0.0, (until - self.row.now).total_seconds()) if until else 0.0

    @property
    def next_try(self) -> datetime | None:
        """Return when a site that is backed off or unreachable is tried next; past if that may be now; else None."""
        return next_try(self.row) if self.row.held_state in TRIED_AGAIN else None

    @property
    def state(self) -> str:
        """Return paused, unreachable, backed off, resting, busy or idle."""
        is_busy = self.backlog or self.row.next_start > self.row.now
        return self.row.held_state or ("busy" if is_busy else "idle")

    @property
    def seen_per_s(self) -> float:
        return self.started / LATELY_S

    @property
    def share(self) -> float:
        """Return how much of its rate the site used in the last minute; 1 is all."""
        return self.started * self.row.effective_interval.total_seconds() / LATELY_S

    @property
    def clears_in_s(self) -> float:
        """Return in about how many seconds nothing waits, if nothing is added.

        Infinite while the site is paused until resumed, or has not answered since its last refusal (`row.is_silent`).
        """
        if not self.backlog:
            return 0.0
        if self.is_halted or self.row.is_silent:
            return math.inf
        return max(self.reserved_for_s, self.held_for_s) + self.backlog * self.row.spacing.total_seconds()

    @property
    def is_halted(self) -> bool:
        """Return whether the site is paused until somebody resumes it."""
        return self.row.paused_until is not None and self.row.paused_until >= PAUSED_FOREVER


@dataclass(frozen=True, kw_only=True, slots=True)
class SitePage:
    """Some sites of a list."""

    sites: Sequence[SiteStatus]
    next: str | None  # the cursor of the next page; None at the end of the list
    looked_at: int | None  # how many sites were read, if the page is short although the list goes on


class _Place(NamedTuple):
    """The site of a way after which the list goes on."""

    way: str
    name: str = ""
    level: int = ANY_LEVEL
    queued: int = LARGEST
    id: int = 0


def backlogs() -> Backlogs:
    """Count the fetches that wait at each site, and its starts in the last minute. Counts at most MOST_QUEUED."""
    started = dict(USED_STARTS(most=MOST_SLOTS, lately=LATELY_S))
    queued: dict[int, int] = {}
    after = counted = 0
    while counted < MOST_QUEUED:  # in short statements, because the machine may be busy
        sites = dict(BACKLOGS(after=after, until=LARGEST, most=QUEUE_PIECE))
        if sum(sites.values()) < QUEUE_PIECE:
            return Backlogs(queued=queued | sites, started=started)
        last, _ = sites.popitem()  # the last site may have more fetches
        if not sites:
            one = {"after": last - 1, "until": last, "most": MOST_QUEUED}
            sites = dict(BACKLOGS(**one))
        queued |= sites
        counted += sum(sites.values())
        after = max(sites)
    return Backlogs(queued=queued, started=started, is_whole=False)


def site_list(filters: SiteFilters, cursor: str | None = None, *, counted: Backlogs) -> SitePage:
    """Return the sites that meet the filters, from the cursor of the last page on. Reads only.

    `counted` is what `backlogs` returned, now or a while ago. Raises BadCursor, a ValueError.
    """
    found: list[SiteStatus] = []
    last: _Place | None = None
    with transaction.atomic():
        looked = islice(_sites(filters, _read(cursor, filters), counted), LOOKED_AT + 1)
        for number, (site, place) in enumerate(looked):
            meets = filters.meets(site)
            if number == LOOKED_AT or (meets and len(found) == ROWS):
                is_short = len(found) < ROWS
                return SitePage(sites=found, next=last and cursors.encode(last), looked_at=number if is_short else None)
            found += [site] * meets
            last = place
    return SitePage(sites=found, next=None, looked_at=None)


def all_sites(filters: SiteFilters, most: int | None, *, counted: Backlogs) -> list[SiteStatus]:
    """Return the first `most` sites (None: all) that meet the filters, however many have to be looked at."""
    with transaction.atomic():
        sites = (site for site, _ in _sites(filters, _start(filters), counted))
        return list(islice(filter(filters.meets, sites), most))


def _sites(filters: SiteFilters, place: _Place, counted: Backlogs) -> Iterator[tuple[SiteStatus, _Place]]:
    """Yield the sites of the list behind this place, each with its own place."""
    planner.in_index_order()
    is_rest = filters.sort == "backlog" and place.way != "ids"  # the sites without a backlog, which come afterwards
    while rows := _piece(filters, place, counted):
        for row in rows:
            queued = counted.queued.get(row.id, 0)
            place = _Place(place.way, name=row.name, level=row.backoff_level, queued=queued, id=row.id)
            if not (is_rest and queued):
                yield SiteStatus(row=row, backlog=queued, started=counted.started.get(row.id, 0)), place
    if place.way == "ids":
        yield from _sites(filters, _Place(_by_name(filters)), counted)


def _piece(filters: SiteFilters, place: _Place, counted: Backlogs) -> list[ListedSite]:
    """Return the next sites, in the order of the way that the place names; none at the end."""
    lowest = filters.search.lower()
    lowest = lowest[::-1] if place.way == "suffix" else lowest
    parameters = {
        "way": place.way,
        "name": place.name,
        "level": place.level,
        "lowest": lowest,
        "highest": lowest + LAST_CHARACTER,
        "most": PIECE,
        "ids": "{}",
    }
    if place.way != "ids":
        return SITE_LIST(**parameters)
    ids = counted.longest_first
    begin = bisect_right(ids, (-place.queued, place.id), key=lambda site: (-counted.queued[site], site))
    for at in range(begin, len(ids), PIECE):  # all sites of a piece may have been deleted
        if rows := SITE_LIST(**{**parameters, "ids": statements.bigints(ids[at : at + PIECE])}):
            return rows
    return []


def _start(filters: SiteFilters) -> _Place:
    if filters.sort == "backlog":
        return _Place("ids")
    if filters.sort == "refusals":
        return _Place("refusals")
    return _Place("held" if filters.state in HELD else _by_name(filters))


def _by_name(filters: SiteFilters) -> str:
    return "suffix" if filters.search.startswith(".") else "name"


def _read(cursor: str | None, filters: SiteFilters) -> _Place:
    start = _start(filters)
    if not cursor:
        return start
    match cursors.decode(cursor):
        case [str(way), str(name), int(level), int(queued), int(id_)]:
            ways = {start.way, *([_by_name(filters)] if start.way == "ids" else [])}
            is_number = 0 <= level <= ANY_LEVEL and 0 <= queued <= LARGEST and 0 <= id_ <= LARGEST
            if way in ways and is_number and cursors.is_text(name):
                return _Place(way, name, level, queued, id_)
    raise cursors.BadCursor
