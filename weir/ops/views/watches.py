"""Watches: a list with filters that indexes serve, and a page about one watch."""

from dataclasses import dataclass
from functools import partial

from django.http import Http404, HttpRequest

from weir.ops.filters import Choice, Chosen, PageFilters, Text
from weir.ops.pages import OpsPage, done, page
from weir.ops.snapshots import Snapshots
from weir.workers.fetches.targets import MAX_LENGTH
from weir.workers.watches import listing
from weir.workers.watches.models import Watch

FILTERS = PageFilters(
    Choice(name="state", label="State", values=listing.STATES),
    Text(name="host", label="Host"),
    Text(name="key", label="Key or URL", longest=MAX_LENGTH),
)


@dataclass(frozen=True, slots=True)
class ShownWatch:
    """A watch, and its state."""

    row: Watch
    state: str


@dataclass(frozen=True, kw_only=True, slots=True)
class _Found:
    watches: list[ShownWatch]
    next: str | None


_lists: Snapshots[_Found] = Snapshots()
_watches: Snapshots[ShownWatch] = Snapshots()


@page
def show_list(request: HttpRequest) -> OpsPage:
    """Show a page of the watches that meet the filters."""
    chosen = FILTERS.read(request.GET)

    def found() -> _Found:
        of = listing.watch_list(wanted(chosen), chosen.cursor or None)
        return _Found(watches=[_shown(row) for row in of.watches], next=of.next)

    snapshot = _lists.get((chosen.key, done(request)), found)
    shows = {"chosen": chosen, "snapshot": snapshot}
    return OpsPage(template="weir/ops/watches.html", title="Watches", good_for_s=snapshot.left_s, shows=shows)


def wanted(chosen: Chosen) -> listing.WatchFilters:
    """Return the filters that were chosen."""
    return listing.WatchFilters(**chosen.values)


@page
def show(request: HttpRequest, watch_id: int) -> OpsPage:
    """Show all about one watch."""
    try:
        snapshot = _watches.get((watch_id, done(request)), partial(_about, watch_id))
    except listing.UnknownWatch as error:
        raise Http404(str(error)) from error
    shows = {"id": watch_id, "snapshot": snapshot}
    return OpsPage(template="weir/ops/watch.html", title=f"Watch {watch_id}", good_for_s=snapshot.left_s, shows=shows)


def _about(watch_id: int) -> ShownWatch:
    return _shown(listing.watch_with(watch_id))


def _shown(row: Watch) -> ShownWatch:
    return ShownWatch(row, listing.state_of(row))
