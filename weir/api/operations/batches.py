"""Operations on batches: see how far one is, and cancel what has not started of it."""

from typing import Any, Final

from django.http import HttpRequest
from ninja import Query, Router

from weir.api.access import actor
from weir.api.http.problems import INVALID, NOT_FOUND, READ_ONLY
from weir.api.operations.operation import operation, refused
from weir.api.schemas.batches import Batch, BatchDetails, BatchFailures, BatchListQuery, BatchPage, CancelledBatch
from weir.api.schemas.sites import WhyQuery
from weir.api.schemas.values import Id
from weir.api.tokens import scopes
from weir.workers.cursors import BadCursor
from weir.workers.fetches.actions import batches as actions
from weir.workers.fetches.batches.counts import BatchCounts
from weir.workers.fetches.management.batch_text import details
from weir.workers.fetches.reports.batches import as_data, batch_list, outlook
from weir.workers.history.reports import batch_failures

router = Router(tags=["batches"])
MOST_CANCELLED: Final = 100_000


@operation(router, "GET", "/batches", scope=scopes.SEE_FETCHES, answers={200: BatchPage})
def list_batches(request: HttpRequest, query: Query[BatchListQuery]) -> BatchPage:
    """List the batches that meet all filters, the newest first."""
    with refused(INVALID, BadCursor):
        page = batch_list(state=query.state, name=query.name, cursor=query.after or None, most=query.limit)
    return BatchPage(batches=[_batch(row) for row in page.batches], next=page.next)


@operation(
    router, "GET", "/batches/{batch_id}", scope=scopes.SEE_FETCHES, answers={200: BatchDetails}, refusals=(NOT_FOUND,)
)
def get_batch(request: HttpRequest, batch_id: Id) -> BatchDetails:
    """Return the numbers of a batch, when it is expected to end, and why its fetches failed."""
    found: dict[str, Any] = details(outlook(batch_id))
    return BatchDetails(**found, failures=[BatchFailures(**each._asdict()) for each in batch_failures(batch_id)])


@operation(
    router,
    "DELETE",
    "/batches/{batch_id}",
    scope=scopes.CHANGE_FETCHES,
    answers={200: CancelledBatch},
    refusals=(READ_ONLY, NOT_FOUND),
)
def cancel_batch(request: HttpRequest, batch_id: Id, query: Query[WhyQuery]) -> CancelledBatch:
    """Take back the fetches of a batch that have not started, up to 100,000; those in flight end."""
    done = actions.cancel(actor(request), batch_id, why=query.why, limit=MOST_CANCELLED)
    return CancelledBatch(**done._asdict())


def _batch(row: BatchCounts) -> Batch:
    data: dict[str, Any] = as_data(row)
    return Batch(**data)
