"""The audit trail: who changed what, through which door (page, command, API, admin), and why."""

from functools import partial

from django.http import HttpRequest
from django.utils import timezone

from weir.ops.filters import Chosen, PageFilters, Text
from weir.ops.pages import OpsPage, page
from weir.ops.snapshots import Look, Snapshots
from weir.workers.audit import listing
from weir.workers.cursors import BadCursor

FILTERS = PageFilters(
    Text(name="target", label="Target"),
    Text(name="action", label="Action"),
    Text(name="actor", label="Actor"),
    Text(name="since", label="Since"),
    Text(name="until", label="Until"),
)
_lists: Snapshots[listing.EntriesPage] = Snapshots()


def wanted(chosen: Chosen) -> listing.EntryFilters:
    """Return the filters that were chosen. Raises ValueError for a text that is no time."""
    return listing.read(chosen.values, timezone.now())


@page
def show_list(request: HttpRequest) -> OpsPage:
    """Show a page of the entries that meet the filters, the newest first."""
    chosen = FILTERS.read(request.GET)
    try:
        snapshot = _lists.get(chosen.key, partial(listing.page, wanted(chosen), chosen.cursor))
    except ValueError as error:
        if isinstance(error, BadCursor):
            raise
        snapshot = Look(value=None, failure=str(error))
    shows = {"chosen": chosen, "list": snapshot}
    return OpsPage(template="weir/ops/audit.html", title="Audit", good_for_s=snapshot.left_s, shows=shows)
