"""Fetches: a list with filters that indexes serve, and a page about one fetch: its steps, and why it waits."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from django.http import Http404, HttpRequest
from django.utils import timezone

from weir.ops.filters import Choice, PageFilters, Text
from weir.ops.pages import OpsPage, done, page
from weir.ops.snapshots import Snapshots
from weir.ratelimit.site_names import InvalidSiteName
from weir.ratelimit.sites import UnknownSite
from weir.workers.fetches.models import FetchState
from weir.workers.fetches.reports import fetch_filters, fetch_list
from weir.workers.fetches.reports.fetch_way import FetchWay, fetch_way
from weir.workers.fetches.reports.waiting_fetch import UnknownFetch
from weir.workers.fetches.reports.why import Why, why

MOST_HEADERS = 100
FILTERS = PageFilters(
    Choice(name="state", label="State", values=[state.value for state in FetchState]),
    Text(name="site", label="Site"),
    Text(name="error", label="Error contains, * at its end: begins"),
    Text(name="status", label="Status"),
    Text(name="url", label="URL or part, * at its end: begins", longest=fetch_filters.LONGEST_TEXT),
    Text(name="since", label="Ended since"),
    Text(name="until", label="Ended until"),
    Text(name="batch", label="Batch"),
    Text(name="share", label="Share"),
    Text(name="reference", label="Reference"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Found:
    """A page of the list, or the reason why the filters are refused."""

    page: fetch_list.FetchPage | None = None
    count: str = ""
    refusal: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class _AboutFetch:
    """All about one fetch."""

    why: Why
    way: FetchWay


_lists: Snapshots[_Found] = Snapshots()
_fetches: Snapshots[_AboutFetch] = Snapshots()


@page
def show_list(request: HttpRequest) -> OpsPage:
    """Show a page of the fetches that meet the filters."""
    chosen = FILTERS.read(request.GET)

    def found() -> _Found:
        try:
            filters = fetch_filters.read({name: [text] for name, text in chosen.values.items()}, timezone.now())
        except (ValueError, InvalidSiteName, UnknownSite) as error:
            return _Found(refusal=str(error))
        count = str(fetch_list.count(filters)) if not chosen.cursor else ""
        return _Found(page=fetch_list.fetch_list(filters, chosen.cursor or None), count=count)

    snapshot = _lists.get((chosen.key, done(request)), found)
    return OpsPage(
        template="weir/ops/fetches.html",
        title="Fetches",
        good_for_s=snapshot.left_s,
        shows={"chosen": chosen, "snapshot": snapshot},
    )


@page
def show(request: HttpRequest, fetch_id: int) -> OpsPage:
    """Show all about one fetch."""

    def found() -> _AboutFetch:
        return _AboutFetch(why=why(fetch_id), way=fetch_way(fetch_id))

    try:
        snapshot = _fetches.get((fetch_id, done(request)), found)
    except UnknownFetch as error:
        raise Http404(str(error)) from error
    headers = list(_pairs(snapshot.value.way.fetch.headers)) if snapshot.value else []
    shows = {"id": fetch_id, "snapshot": snapshot, "headers": headers}
    return OpsPage(template="weir/ops/fetch.html", title=f"Fetch {fetch_id}", good_for_s=snapshot.left_s, shows=shows)


def _pairs(stored: object) -> Iterator[tuple[str, str]]:
    """Yield the first MOST_HEADERS headers. Skips everything but pairs of strings, which are what fetchers store."""
    for pair in islice(stored, MOST_HEADERS) if isinstance(stored, list) else ():
        match pair:
            case [str(name), str(value)]:
                yield name, value
