"""Webhooks: the list of endpoints, and a page about one."""

from functools import partial

from django.http import Http404, HttpRequest

from weir.ops.pages import OpsPage, done, page
from weir.ops.snapshots import Snapshots
from weir.workers.webhooks import listing
from weir.workers.webhooks.endpoints import UnknownEndpoint
from weir.workers.webhooks.listing import ListedEndpoint

_lists: Snapshots[list[ListedEndpoint]] = Snapshots()
_endpoints: Snapshots[ListedEndpoint] = Snapshots()


@page
def show_list(request: HttpRequest) -> OpsPage:
    """Show all endpoints."""
    snapshot = _lists.get((done(request),), listing.endpoint_list)
    shows = {"snapshot": snapshot, "most": listing.MOST_BEHIND}
    return OpsPage(template="weir/ops/webhooks.html", title="Webhooks", good_for_s=snapshot.left_s, shows=shows)


@page
def show(request: HttpRequest, endpoint_id: int) -> OpsPage:
    """Show all about one endpoint."""
    try:
        snapshot = _endpoints.get((endpoint_id, done(request)), partial(listing.endpoint_with, endpoint_id))
    except UnknownEndpoint as error:
        raise Http404(str(error)) from error
    shows = {"id": endpoint_id, "snapshot": snapshot, "most": listing.MOST_BEHIND}
    title = f"Endpoint {endpoint_id}"
    return OpsPage(template="weir/ops/endpoint.html", title=title, good_for_s=snapshot.left_s, shows=shows)
