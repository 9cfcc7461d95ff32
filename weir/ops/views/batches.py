"""Batches: a list, and a page about one: its progress, the forecast of its end, and why its fetches failed."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from django.http import Http404, HttpRequest

from weir.ops.filters import Choice, Chosen, PageFilters, Text
from weir.ops.pages import OpsPage, done, page
from weir.ops.snapshots import Snapshots
from weir.workers.fetches.batches.counts import UnknownBatch
from weir.workers.fetches.models import LONGEST_BATCH_NAME
from weir.workers.fetches.reports import batches
from weir.workers.fetches.reports.batches import BatchOutlook, BatchPage
from weir.workers.history.reports import MOST_FAILURES, FailureClass, batch_failures

FILTERS = PageFilters(
    Choice(name="state", label="State", values=batches.STATES),
    Text(name="name", label="Name", longest=LONGEST_BATCH_NAME),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class _AboutBatch:
    """All about one batch."""

    outlook: BatchOutlook
    failures: Sequence[FailureClass]
    are_newest: bool  # there are more failed ones than were looked at


_lists: Snapshots[BatchPage] = Snapshots()
_batches: Snapshots[_AboutBatch] = Snapshots()


@page
def show_list(request: HttpRequest) -> OpsPage:
    """Show a page of the batches that meet the filters."""
    chosen = FILTERS.read(request.GET)
    read = partial(wanted, chosen, chosen.cursor)
    snapshot = _lists.get((chosen.key, done(request)), read)
    shows = {"chosen": chosen, "snapshot": snapshot}
    return OpsPage(template="weir/ops/batches.html", title="Batches", good_for_s=snapshot.left_s, shows=shows)


def wanted(chosen: Chosen, cursor: str) -> BatchPage:
    """Return the batches of the filters that were chosen, from the cursor on."""
    return batches.batch_list(state=chosen.values["state"], name=chosen.values["name"], cursor=cursor or None)


@page
def show(request: HttpRequest, batch_id: int) -> OpsPage:
    """Show all about one batch."""
    try:
        snapshot = _batches.get((batch_id, done(request)), partial(_about, batch_id))
    except UnknownBatch as error:
        raise Http404(str(error)) from error
    shows = {"id": batch_id, "snapshot": snapshot, "most_failures": MOST_FAILURES}
    return OpsPage(template="weir/ops/batch.html", title=f"Batch {batch_id}", good_for_s=snapshot.left_s, shows=shows)


def _about(batch_id: int) -> _AboutBatch:
    outlook = batches.outlook(batch_id)
    failures = batch_failures(batch_id) if outlook.counts.failed else []
    return _AboutBatch(outlook=outlook, failures=failures, are_newest=outlook.counts.failed > MOST_FAILURES)
