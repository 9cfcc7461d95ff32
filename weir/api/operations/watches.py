"""Operations on watches: have URLs fetched again and again, see what came of it, and end it."""

from datetime import timedelta
from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja import Query, Router

from weir.api.access import actor, own_name
from weir.api.http.problems import INVALID, NOT_FOUND, READ_ONLY, Problem
from weir.api.operations.operation import operation, refused
from weir.api.schemas.sites import WhyQuery
from weir.api.schemas.values import Id
from weir.api.schemas.watches import NewWatches, NewWatchesAnswer, Watch, WatchListQuery, WatchPage
from weir.api.tokens import scopes
from weir.conf.texts.request_headers import named_in
from weir.workers.cursors import BadCursor
from weir.workers.fetches.targets import parse_target
from weir.workers.watches import actions, listing
from weir.workers.watches.models import Watch as Row
from weir.workers.watches.watching import hash_of, watch_many

router = Router(tags=["watches"])


@operation(router, "POST", "/watches", scope=scopes.ADD_WATCHES, answers={200: NewWatchesAnswer})
def post_watches(request: HttpRequest, wanted: NewWatches) -> NewWatchesAnswer:
    """Watch URLs, or change the watches that this program has of them. The same request again changes nothing.

    Their keys begin with `api:` and the name of the program's first token, so no program changes those of another one.
    """
    if named_in(wanted.headers or {}):
        raise Problem(INVALID, "headers must not name secrets here: an operator sets them for the site.")
    if (wanted.shortest_s is None) is not (wanted.longest_s is None):
        raise Problem(INVALID, "Give shortest_s and longest_s, or none of them.")
    options = wanted.model_dump(include={"jitter", "priority", "revalidate", "headers", "share"})
    with refused(INVALID, ValueError):
        keys = {_key(request, url): url for url in wanted.urls}
        new = watch_many(keys, every=timedelta(seconds=wanted.every_s), adapt=_adapt(wanted), **options)
    ids = dict(Row.objects.filter(dedupe_key__in=map(hash_of, keys)).values_list("dedupe_key", "pk"))
    return NewWatchesAnswer(new=new, ids=[ids[hash_of(_key(request, url))] for url in wanted.urls])


@operation(router, "GET", "/watches", scope=scopes.SEE_WATCHES, answers={200: WatchPage})
def list_watches(request: HttpRequest, query: Query[WatchListQuery]) -> WatchPage:
    """List the watches that meet all filters, the newest first."""
    with refused(INVALID, BadCursor):
        page = listing.watch_list(
            listing.WatchFilters(host=query.host, state=query.state), query.after or None, most=query.limit
        )
    return WatchPage(watches=[_watch(row) for row in page.watches], next=page.next)


@operation(router, "GET", "/watches/{watch_id}", scope=scopes.SEE_WATCHES, answers={200: Watch}, refusals=(NOT_FOUND,))
def get_watch(request: HttpRequest, watch_id: Id) -> Watch:
    """Return all about one watch."""
    return _watch(listing.watch_with(watch_id))


@operation(
    router,
    "DELETE",
    "/watches/{watch_id}",
    scope=scopes.CHANGE_WATCHES,
    answers={204: None},
    refusals=(READ_ONLY, NOT_FOUND),
)
def remove_watch(request: HttpRequest, watch_id: Id, query: Query[WhyQuery]) -> HttpResponse:
    """Remove a watch. A fetch that is unfinished ends as any other."""
    actions.remove(actor(request), watch_id, why=query.why)
    return HttpResponse(status=204)


def _key(request: HttpRequest, url: str) -> str:
    """Return the key of a program's watch: all spellings of a URL are one. Raises ValueError for what is no URL."""
    return own_name(request, parse_target(url).url)


def _adapt(wanted: NewWatches) -> tuple[timedelta, timedelta] | None:
    if wanted.shortest_s is None or wanted.longest_s is None:
        return None
    return timedelta(seconds=wanted.shortest_s), timedelta(seconds=wanted.longest_s)


def _watch(row: Row) -> Watch:
    data: dict[str, Any] = listing.as_data(row)
    return Watch(**data)
