"""What dispatch and fetches cost while sites grow, all of which have queued fetches."""

from functools import partial

from benchmarks import database
from benchmarks.growth import curves, fetching
from benchmarks.growth.curves import Growth
from benchmarks.scale import tables


def _fill(before: int, size: int) -> None:
    """Add sites, each with one queued fetch."""
    with database.hastily():
        database.run_at_length(fetching.SITES.format(before=before, size=size))
        with database.without_indexes("weir_fetches_fetch"):
            database.run_at_length(fetching.FETCHES.format(before=before, size=size, sites=size, **fetching.NOW))
    tables.vacuum()


SITES = Growth(
    name="sites",
    of="sites",
    sizes=(1_000, 10_000, 100_000, 1_000_000),
    fill=_fill,
    costs=partial(fetching.costs, "sites"),
    empty=tables.empty,
)
measure = partial(curves.measure, growth=SITES)
