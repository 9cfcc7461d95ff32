"""Operations on fetches: ask for URLs, see what became of a fetch or why it waits, and cancel it."""

import math
from dataclasses import asdict
from itertools import islice
from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils import timezone
from ninja import Query, Router

from weir.api.access import actor, own_name, token_of
from weir.api.http.files import body_response
from weir.api.http.problems import (
    BUSY,
    IN_PROGRESS,
    INVALID,
    NOT_FOUND,
    NOT_PERMITTED,
    OTHER_REQUEST,
    READ_ONLY,
    TOO_LATE,
    UNAVAILABLE,
    Problem,
)
from weir.api.idempotency import once
from weir.api.operations.operation import IDEMPOTENCY_KEY, operation, refused
from weir.api.schemas.fetches import (
    AcceptedFetch,
    AcceptedFetches,
    Blocker,
    FetchDetails,
    FetchListQuery,
    FetchPage,
    FetchQuery,
    FetchWhy,
    ListedFetch,
    NewFetches,
    Step,
)
from weir.api.schemas.values import Id
from weir.api.tokens import scopes
from weir.conf.texts.request_headers import named_in
from weir.ratelimit.site_names import InvalidSiteName
from weir.ratelimit.sites import SitesLocked, UnknownSite
from weir.workers.cursors import BadCursor
from weir.workers.fetches.actions import fetches
from weir.workers.fetches.batches.counts import id_of
from weir.workers.fetches.enqueue import request_fetches
from weir.workers.fetches.methods import SAFE
from weir.workers.fetches.models import FINAL, LONGEST_BATCH_NAME, BodyGone, BodyUnreachable, Fetch
from weir.workers.fetches.reports import fetch_filters
from weir.workers.fetches.reports.fetch_list import fetch_list
from weir.workers.fetches.reports.fetch_way import FetchOnItsWay, fetch_way
from weir.workers.fetches.reports.forecast import forecast
from weir.workers.fetches.reports.waiting_fetch import UnknownFetch
from weir.workers.fetches.reports.why import why

router = Router(tags=["fetches"])
BINARY: Final = "application/octet-stream"
LONGEST_RETRY_S: Final = 3_600
MOST_HEADERS: Final = 100
MOST_WITH_BODY: Final = 10


@operation(
    router,
    "POST",
    "/fetches",
    scope=scopes.ADD_FETCHES,
    answers={202: AcceptedFetches},
    refusals=(BUSY, IN_PROGRESS, OTHER_REQUEST),
)
def post_fetches(request: HttpRequest, wanted: NewFetches, idempotency_key: str = IDEMPOTENCY_KEY) -> HttpResponse:
    """Ask for one or many URLs, each of which is fetched at the rate of its site.

    Each is accepted: it ends `done`, `failed` or `cancelled`. A text that is no URL that Weir fetches has failed, and
    says why; it hinders none of the others.
    """

    def ask() -> tuple[int, AcceptedFetches]:
        options = wanted.model_dump(exclude={"urls", "json_"}) | {"json": wanted.json_}
        options["batch"] = _batch(request, wanted)
        options["body"] = None if wanted.body is None else wanted.body.encode()
        has_body = any(options[name] is not None for name in ("body", "json", "form"))
        if has_body and len(wanted.urls) > MOST_WITH_BODY:
            raise Problem(INVALID, f"urls must be at most {MOST_WITH_BODY} if there is a body: it is stored for each.")
        if named_in(wanted.headers or {}):  # who may add fetches could send any secret to a host of their own
            raise Problem(INVALID, "headers must not name secrets here: an operator sets them for the site.")
        if wanted.method not in SAFE and scopes.SEND_FETCHES not in token_of(request).scopes:
            raise Problem(NOT_PERMITTED, f"A {wanted.method} needs the scope {scopes.SEND_FETCHES}, too.")
        with refused(BUSY, SitesLocked), refused(INVALID, ValueError, TypeError):
            found = request_fetches(wanted.urls, **options)
        batch = id_of(options["batch"]) if options["batch"] else None
        return 202, AcceptedFetches.model_construct(fetches=[_accepted(fetch) for fetch in found], batch=batch)

    return once(request, idempotency_key, ask)


@operation(router, "GET", "/fetches", scope=scopes.SEE_FETCHES, answers={200: FetchPage})
def list_fetches(request: HttpRequest, query: Query[FetchListQuery]) -> FetchPage:
    """List the fetches that meet all filters: held ones first, then queued ones, then the last end first.

    Without filters all come, the newest first. A page that is short though the list goes on says so in `looked_at`.
    """
    filters = filters_of(query)
    with refused(INVALID, BadCursor):
        page = fetch_list(filters, query.after or None, most=query.limit)
    rows = [ListedFetch.model_construct(**row._asdict()) for row in page.fetches]
    return FetchPage(fetches=rows, next=page.next, looked_at=page.looked_at)


@operation(
    router, "GET", "/fetches/{fetch_id}", scope=scopes.SEE_FETCHES, answers={200: FetchDetails}, refusals=(NOT_FOUND,)
)
def get_fetch(request: HttpRequest, fetch_id: Id, response: HttpResponse) -> FetchDetails:
    """Return all about one fetch but its body. `Retry-After` is there until it has ended: when to ask again."""
    with refused(NOT_FOUND, UnknownFetch):
        way = fetch_way(fetch_id)
    row = way.fetch
    if row.state not in FINAL:
        response.headers["Retry-After"] = str(_retry_after_s(row))
    steps = [Step(**asdict(step)) for step in way.steps]
    named = {name: value for name, value in row._asdict().items() if name in FetchDetails.model_fields}
    chain = [(status, url) for status, url in row.redirect_chain or ()]
    return FetchDetails(**{**named, "headers": _pairs(row.headers), "redirect_chain": chain, "steps": steps})


@operation(
    router, "GET", "/fetches/{fetch_id}/why", scope=scopes.SEE_FETCHES, answers={200: FetchWhy}, refusals=(NOT_FOUND,)
)
def get_fetch_why(request: HttpRequest, fetch_id: Id) -> FetchWhy:
    """Say why a fetch waits: everything that is in its way, what matters most first."""
    with refused(NOT_FOUND, UnknownFetch):
        found = why(fetch_id)
    blockers = [Blocker(**{name: getattr(one, name) for name in Blocker.model_fields}) for one in found.blockers]
    return FetchWhy(fetch=found.fetch, state=found.state, now=found.now, blockers=blockers)  # type: ignore[arg-type]  # one of State


@operation(
    router,
    "GET",
    "/fetches/{fetch_id}/body",
    scope=scopes.SEE_FETCHES,
    answers={200: None},
    refusals=(NOT_FOUND,),
    media_type=BINARY,
)
def get_fetch_body(request: HttpRequest, fetch_id: Id) -> HttpResponseBase:
    """Return the body of a fetch, decompressed, as it came or as much as is kept of it: a stranger chose it."""
    fetch = Fetch.objects.filter(pk=fetch_id).first()
    with refused(NOT_FOUND, BodyGone), refused(UNAVAILABLE, BodyUnreachable):
        content = fetch.open_content() if fetch else None
        if content is None:
            raise Problem(NOT_FOUND, f"Fetch {fetch_id} has no body." if fetch else str(UnknownFetch(fetch_id)))
        disposition = f'attachment; filename="fetch-{fetch_id}"'
        return body_response(request, content, content_type=BINARY, headers={"Content-Disposition": disposition})


@operation(
    router,
    "DELETE",
    "/fetches/{fetch_id}",
    scope=scopes.CHANGE_FETCHES,
    answers={204: None},
    refusals=(READ_ONLY, NOT_FOUND, TOO_LATE),
)
def cancel_fetch(request: HttpRequest, fetch_id: Id) -> HttpResponse:
    """Take a fetch back that has not started: its slot goes to the next one of its site."""
    if not fetches.cancel(actor(request), fetch_id):
        state = Fetch.objects.filter(pk=fetch_id).values_list("state", flat=True).first()
        if state is None:
            raise Problem(NOT_FOUND, str(UnknownFetch(fetch_id)))
        raise Problem(TOO_LATE, f"Fetch {fetch_id} is {state}: it is about to start, in flight, or has ended.")
    return HttpResponse(status=204)


def filters_of(query: FetchQuery) -> fetch_filters.Filters:
    """Return the filters that the query names. Raises Problem."""
    texts = {name: _texts(getattr(query, name)) for name in fetch_filters.NAMES}
    with refused(INVALID, ValueError, InvalidSiteName, UnknownSite):
        return fetch_filters.read(texts, timezone.now())


def _texts(value: Any) -> list[str]:  # noqa: ANN401  of any field
    if isinstance(value, list):
        return value
    return [] if value is None else [str(value)]


def _batch(request: HttpRequest, wanted: NewFetches) -> str | None:
    """Return the whole name of the batch: no program adds to the batches of others. Raises Problem."""
    if not wanted.urls and wanted.batch is None:
        raise Problem(INVALID, "urls must have at least one URL, unless the request names a batch.")
    if wanted.batch is None:
        return None
    name = own_name(request, wanted.batch)
    if len(name) > LONGEST_BATCH_NAME:
        most = max(0, LONGEST_BATCH_NAME - len(own_name(request, "")))
        prefix = own_name(request, "").strip()
        raise Problem(INVALID, f"batch must have {most} characters at most: {prefix!r} and a blank go before it.")
    return name


def _accepted(fetch: Fetch) -> AcceptedFetch:
    return AcceptedFetch.model_construct(
        id=fetch.pk,
        url=fetch.url,
        state=fetch.state,
        error=fetch.error,
        reference=fetch.reference or "",
        created_at=fetch.created_at,
    )


def _pairs(stored: object) -> list[tuple[str, str]]:
    """Return the first MOST_HEADERS headers. Skips everything but pairs of strings, which are what fetchers store."""
    pairs = islice(stored, MOST_HEADERS) if isinstance(stored, list) else ()
    return [(pair[0], pair[1]) for pair in pairs if isinstance(pair, list) and [*map(type, pair)] == [str, str]]


def _retry_after_s(row: FetchOnItsWay) -> int:
    """Return in how many seconds to ask again: at the fetch's slot or, without a slot, at its forecast start."""
    if row.slot_at is not None:
        wait_s = (row.slot_at - row.now).total_seconds()
    else:
        wait_s = max(forecast(row.site).starts_in_s if row.site else 0.0, (row.not_before - row.now).total_seconds())
    return LONGEST_RETRY_S if wait_s == math.inf else min(LONGEST_RETRY_S, max(1, math.ceil(wait_s)))
