"""The audit trail: who changed what, through which door (page, command, API, admin), and why."""

from functools import partial

from django.http import HttpRequest

from weir.ops.filters import PageFilters, Text
from weir.ops.pages import OpsPage, page
from weir.ops.snapshots import Snapshots
from weir.workers.audit import listing

FILTERS = PageFilters(
    Text(name="target", label="Target"), Text(name="action", label="Action"), Text(name="actor", label="Actor")
)
_lists: Snapshots[listing.EntriesPage] = Snapshots()


@page
def show_list(request: HttpRequest) -> OpsPage:
    """Show a page of the entries that meet the filters, the newest first."""
    chosen = FILTERS.read(request.GET)
    snapshot = _lists.get(chosen.key, partial(listing.page, listing.EntryFilters(**chosen.values), chosen.cursor))
    shows = {"chosen": chosen, "list": snapshot}
    return OpsPage(template="weir/ops/audit.html", title="Audit", good_for_s=snapshot.left_s, shows=shows)
