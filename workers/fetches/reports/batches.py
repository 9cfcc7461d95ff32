"""Batches: the list of them, a page at a time; and when one of them is expected to end.

The cost of a page does not depend on how many fetches the batches have. The forecast looks at the newest LOOKED_AT
queued fetches of a batch, and asks `forecast` about the sites at which these take longest.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from django.db import transaction
from django.db.models import QuerySet

from weir.conf.texts.suggestions import no_such_word
from weir.postgres import planner
from weir.postgres.statements import Statement
from weir.workers import cursors
from weir.workers.fetches.batches.counts import BatchCounts, all_counts, counts_of
from weir.workers.fetches.models import Batch
from weir.workers.fetches.reports.forecast import forecast

ROWS: Final = 100
LARGEST_ID: Final = 2**63 - 1
STATES: Final = ("running", "open", "ended")
LOOKED_AT: Final = 5_000  # rows that may have to be read from as many places of a disk
MOMENTS: Final = ("created_at", "ended_at", "on_done_called_at", "on_done_again_at")
MOST_SITES: Final = 3  # of which a forecast is made: each counts the queue of its site


class BatchPage(NamedTuple):
    """Some batches of a list, and the cursor of the next page; None at the end."""

    batches: Sequence[BatchCounts]
    next: str | None


class WaitingAt(NamedTuple):
    """A site at which fetches of a batch are queued."""

    name: str
    fetches: int
    due_in_s: float
    looked_at: int


@dataclass(frozen=True, kw_only=True, slots=True)
class SiteOutlook:
    """How many of the fetches that were looked at are queued at a site, and when the last of them starts."""

    site: str
    fetches: int
    starts_in_s: float  # infinite if it is not known, or never


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchOutlook:
    """A batch, and when its last fetch is expected to start."""

    counts: BatchCounts
    sites: Sequence[SiteOutlook]  # those at which its fetches take longest
    looked_at: int  # queued fetches that were looked at; there may be more

    @property
    def ends_in_s(self) -> float | None:
        """In how many seconds the last queued fetch starts, at the soonest; None if none is queued."""
        return max((site.starts_in_s for site in self.sites), default=None)

    @property
    def is_known(self) -> bool:
        """Whether that is a length of time."""
        return self.ends_in_s is not None and math.isfinite(self.ends_in_s)

    @property
    def is_partial(self) -> bool:
        """Whether there may be more queued fetches than were looked at."""
        return self.looked_at >= LOOKED_AT


BATCH_SITES = Statement("batch_sites", row=WaitingAt, commits=False)


def batch_list(*, state: str = "", name: str = "", cursor: str | None = None, most: int = ROWS) -> BatchPage:
    """Return the batches in this state, or with this name, the newest first. Raises ValueError and BadCursor."""
    with transaction.atomic():
        planner.in_index_order()
        found = list(_after(_filtered(state, name), cursor).order_by("-pk").values_list("pk", flat=True)[: most + 1])
    shown = all_counts(found[:most])
    return BatchPage(shown, cursors.encode([found[most - 1]]) if len(found) > most else None)


def named(text: str, most: int) -> Sequence[Batch]:
    """Return the batch of this name; without one, up to `most` whose names begin with it. An index finds them."""
    if found := list(Batch.objects.filter(name=text)):
        return found
    return sorted(Batch.objects.filter(name__startswith=text)[:most], key=lambda batch: str(batch.name))


def outlook(batch_id: int) -> BatchOutlook:
    """Return the batch and the forecast of its end, which holds if nothing else happens. Raises UnknownBatch."""
    waiting = BATCH_SITES(batch=batch_id, look=LOOKED_AT, most=MOST_SITES)
    sites = [
        SiteOutlook(
            site=site.name, fetches=site.fetches, starts_in_s=max(forecast(site.name).clears_in_s, site.due_in_s)
        )
        for site in waiting
    ]
    sites.sort(key=lambda site: -site.starts_in_s)
    return BatchOutlook(counts=counts_of(batch_id), sites=sites, looked_at=waiting[0].looked_at if waiting else 0)


def as_data(counts: BatchCounts) -> dict[str, object]:
    """Return a batch for machines."""
    moments = {name: getattr(counts, name) for name in MOMENTS}
    return {
        "id": counts.id,
        "name": counts.name,
        "state": counts.state,
        "total": counts.total,
        "unfinished": counts.unfinished,
        "done": counts.done,
        "failed": counts.failed,
        "cancelled": counts.cancelled,
        "on_batch_done": counts.on_done or None,
        **{name: moment and moment.isoformat() for name, moment in moments.items()},
    }


def _filtered(state: str, name: str) -> QuerySet[Batch]:
    found = Batch.objects.all()
    if state and state not in STATES:
        raise ValueError(no_such_word(state, STATES, "state"))
    if state:
        found = found.filter(ended_at__isnull=state != "ended")
    if state in {"running", "open"}:
        found = found.filter(is_open=state == "open")
    return found.filter(name=name) if name else found


def _after(batches: QuerySet[Batch], cursor: str | None) -> QuerySet[Batch]:
    if not cursor:
        return batches
    match cursors.decode(cursor):
        case [int(pk)] if abs(pk) <= LARGEST_ID:
            return batches.filter(pk__lt=pk)
    raise cursors.BadCursor
