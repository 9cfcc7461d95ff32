"""Unread numbers: whether they can be trusted, how far the full scan is, and what was repaired."""

from django.http import HttpRequest

from weir.notifications.reports import UnreadStatus, unread_status
from weir.ops.pages import OpsPage, done, page
from weir.ops.snapshots import Snapshots

_snapshots: Snapshots[UnreadStatus] = Snapshots()


@page
def show(request: HttpRequest) -> OpsPage:
    """Show the state of unread numbers."""
    snapshot = _snapshots.get(done(request), unread_status)
    shows = {"snapshot": snapshot, **(_scan(snapshot.value) if snapshot.value else {})}
    return OpsPage(template="weir/ops/unread.html", title="Unread numbers", good_for_s=snapshot.left_s, shows=shows)


def _scan(of: UnreadStatus) -> dict[str, object]:
    """Return how far the full scan is, in percent, and in how many seconds it ends if it is as fast as the last one."""
    if of.scan_share is None:
        return {"share": None}
    ends_in_s = None if of.scan_took_s is None else (1 - of.scan_share) * of.scan_took_s
    return {"share": round(of.scan_share * 100), "ends_in_s": ends_in_s}
