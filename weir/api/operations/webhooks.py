"""Operations on endpoints of webhooks: have events sent to a URL, see what comes of it, and end it."""

from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from ninja import Query, Router

from weir.api.access import actor, own_name
from weir.api.http.problems import BUSY, INVALID, NO_EVENTS, NOT_FOUND, NOT_IN_THIS_STATE, READ_ONLY
from weir.api.operations.operation import operation, refused
from weir.api.schemas.sites import WhyQuery
from weir.api.schemas.values import Id
from weir.api.schemas.webhooks import Endpoint, Endpoints, NewEndpoint, SentTest
from weir.api.tokens import scopes
from weir.workers.events.log import NoEvents
from weir.workers.webhooks import actions, listing
from weir.workers.webhooks.listing import ListedEndpoint

router = Router(tags=["webhooks"])
CHANGES: Final = (READ_ONLY, NOT_FOUND)


@operation(
    router,
    "POST",
    "/webhooks",
    scope=scopes.CHANGE_WEBHOOKS,
    answers={200: Endpoint},
    refusals=(READ_ONLY, NO_EVENTS, BUSY),
)
def post_endpoint(request: HttpRequest, wanted: NewEndpoint) -> Endpoint:
    """Have webhooks sent to a URL, or change the endpoint of this name. The same request again changes nothing.

    Its name begins with `api:` and the name of the program's first token, so no program changes that of another one.
    """
    with refused(INVALID, ValueError), refused(NO_EVENTS, NoEvents):
        row = actions.add(
            actor(request),
            own_name(request, wanted.name),
            wanted.url,
            secret=wanted.secret,
            types=wanted.types,
            why=wanted.why,
        )
    return _endpoint(listing.endpoint_with(row.pk))


@operation(router, "GET", "/webhooks", scope=scopes.SEE_WEBHOOKS, answers={200: Endpoints})
def list_endpoints(request: HttpRequest) -> Endpoints:
    """List all endpoints, in the order of their names."""
    return Endpoints(endpoints=[_endpoint(found) for found in listing.endpoint_list()])


@operation(
    router,
    "GET",
    "/webhooks/{endpoint_id}",
    scope=scopes.SEE_WEBHOOKS,
    answers={200: Endpoint},
    refusals=(NOT_FOUND,),
)
def get_endpoint(request: HttpRequest, endpoint_id: Id) -> Endpoint:
    """Return all about one endpoint."""
    return _endpoint(listing.endpoint_with(endpoint_id))


@operation(
    router,
    "DELETE",
    "/webhooks/{endpoint_id}",
    scope=scopes.CHANGE_WEBHOOKS,
    answers={204: None},
    refusals=CHANGES,
)
def remove_endpoint(request: HttpRequest, endpoint_id: Id, query: Query[WhyQuery]) -> HttpResponse:
    """Remove an endpoint; its webhooks that have not started are cancelled."""
    actions.remove(actor(request), endpoint_id, why=query.why)
    return HttpResponse(status=204)


@operation(
    router,
    "PUT",
    "/webhooks/{endpoint_id}/pause",
    scope=scopes.CHANGE_WEBHOOKS,
    answers={204: None},
    refusals=CHANGES,
)
def pause_endpoint(request: HttpRequest, endpoint_id: Id, query: Query[WhyQuery]) -> HttpResponse:
    """Send nothing there until the endpoint is resumed; events wait. What is in flight ends."""
    actions.pause(actor(request), endpoint_id, why=query.why)
    return HttpResponse(status=204)


@operation(
    router,
    "DELETE",
    "/webhooks/{endpoint_id}/pause",
    scope=scopes.CHANGE_WEBHOOKS,
    answers={204: None},
    refusals=CHANGES,
)
def resume_endpoint(request: HttpRequest, endpoint_id: Id, query: Query[WhyQuery]) -> HttpResponse:
    """Send what has waited, and go on."""
    actions.resume(actor(request), endpoint_id, why=query.why)
    return HttpResponse(status=204)


@operation(
    router,
    "POST",
    "/webhooks/{endpoint_id}/tests",
    scope=scopes.CHANGE_WEBHOOKS,
    answers={202: SentTest},
    refusals=(*CHANGES, NOT_IN_THIS_STATE, BUSY),
)
def test_endpoint(request: HttpRequest, endpoint_id: Id, query: Query[WhyQuery]) -> Any:  # noqa: ANN401  a status, too
    """Send a webhook of the type `webhook.test`; its `data` is empty."""
    with refused(NOT_IN_THIS_STATE, ValueError):
        fetch = actions.send_test(actor(request), endpoint_id, why=query.why)
    return 202, SentTest(fetch=fetch)


def _endpoint(found: ListedEndpoint) -> Endpoint:
    data: dict[str, Any] = listing.as_data(found)
    return Endpoint(**data)
