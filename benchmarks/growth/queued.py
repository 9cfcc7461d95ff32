"""What dispatch and fetches cost while the queues of a thousand sites grow.

Half of the queued fetches are due, and spread over all sites. The other half is for tomorrow, at one of the due sites,
with a higher priority than what that site has for now.
"""

from functools import partial

from benchmarks import database
from benchmarks.growth import curves, fetching
from benchmarks.growth.curves import Growth
from benchmarks.scale import tables

SITES = 1_000
LATER = fetching.FETCHES.format(before="{before}", size="{size}", sites=1, **fetching.TOMORROW)


def _fill(before: int, size: int) -> None:
    with database.hastily():
        if not before:
            database.run_at_length(fetching.SITES.format(before=0, size=SITES))
        with database.without_indexes("weir_fetches_fetch"):
            half = {"before": before // 2, "size": size // 2}
            database.run_at_length(fetching.FETCHES.format(**half, sites=SITES, **fetching.NOW))
            database.run_at_length(LATER.format(**half))
    tables.vacuum()


QUEUED = Growth(
    name="queued",
    of="queued fetches",
    sizes=(10_000, 100_000, 1_000_000, 10_000_000),
    fill=_fill,
    costs=partial(fetching.costs, "queued"),
    empty=tables.empty,
)
measure = partial(curves.measure, growth=QUEUED)
