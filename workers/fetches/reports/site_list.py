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

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from typing import Final, NamedTuple

from django.db import transaction

from weir.conf.texts.suggestions import no_such_word
from weir.postgres import planner, statements
from weir.postgres.statements import Statement
from weir.ratelimit.models import HeldState
from weir.workers import cursors
from weir.workers.fetches.reports.holds import pauses
from weir.workers.fetches.reports.listed_site import LATELY_S, ListedSite, SiteStatus

ROWS: Final = 100  # sites of a page
LOOKED_AT: Final = 20_000  # sites that are read for one page
PIECE: Final = 1_000  # sites of one query
MOST_QUEUED: Final = 2_000_000  # queued fetches that are counted
QUEUE_PIECE: Final = 200_000  # queued fetches that one statement counts
MOST_SLOTS: Final = 100_000  # slots that are looked at: a minute's worth
STATES: Final = (*(state.value for state in HeldState), "busy", "idle")
SORTS: Final = ("name", "backlog", "refusals")
LONGEST_SEARCH: Final = 300
LAST_CHARACTER: Final = "\U0010ffff"
ANY_LEVEL: Final = 2**15 - 1
LARGEST: Final = 2**63 - 1


class SiteCount(NamedTuple):
    """How many fetches of a site wait, or have started lately."""

    site_id: int
    fetches: int


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
    has_backlog: bool = False  # only sites at which fetches wait

    def __post_init__(self) -> None:
        if self.state and self.state not in STATES:
            raise ValueError(no_such_word(self.state, STATES, "state"))
        if self.sort not in SORTS:
            raise ValueError(no_such_word(self.sort, SORTS, "sort"))
        if len(self.search) > LONGEST_SEARCH or not cursors.is_text(self.search):
            raise ValueError(f"search must be text of at most {LONGEST_SEARCH} characters.")

    def meets(self, site: SiteStatus) -> bool:
        """Return whether the site is meant."""
        text = self.search.lower()
        is_found = site.row.name.endswith(text) if text.startswith(".") else site.row.name.startswith(text)
        return is_found and self.state in {"", site.state} and (site.backlog > 0 or not self.has_backlog)


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
                looked_at = number if len(found) < ROWS else None
                return SitePage(sites=_with_pauses(found), next=last and cursors.encode(last), looked_at=looked_at)
            found += [site] * meets
            last = place
    return SitePage(sites=_with_pauses(found), next=None, looked_at=None)


def all_sites(filters: SiteFilters, most: int | None, *, counted: Backlogs) -> Sequence[SiteStatus]:
    """Return the first `most` sites (None: all) that meet the filters, however many have to be looked at."""
    with transaction.atomic():
        sites = (site for site, _ in _sites(filters, _start(filters), counted))
        return _with_pauses(list(islice(filter(filters.meets, sites), most)))


def _with_pauses(sites: Sequence[SiteStatus]) -> Sequence[SiteStatus]:
    """Return the sites, those that are paused with who paused them; one statement."""
    found = pauses({site.row.name: site.row.paused_until for site in sites if site.state == "paused"})
    return [replace(site, pause=found.get(site.row.name)) for site in sites]


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
    if place.way == "ids" and not filters.has_backlog:
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
    return _Place("held" if filters.state in list(HeldState) else _by_name(filters))


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
