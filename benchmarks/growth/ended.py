"""What dispatch, fetches, purge and lists cost while the fetches that have ended grow, at a thousand sites.

The fetches of a filling ended in the order of their ids, in the last 60 days, of which 30 are kept. They have no
bodies: the measured statements find bodies by the ids of their fetches, and 50,000,000 would not fit on the disk.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks import database
from benchmarks.growth import curves, fetching
from benchmarks.growth.curves import Growth, takes_ms
from benchmarks.scale import tables
from benchmarks.scale.explained import write_plan
from weir.conf import settings
from weir.postgres import batches
from weir.workers.fetches.maintenance import purge
from weir.workers.fetches.reports.fetch_filters import Filters
from weir.workers.fetches.reports.fetch_list import fetch_list

SITES = 1_000
FILL = f"""
    INSERT INTO weir_fetches_fetch ({tables.COLUMNS}, slot_id, status_code, lateness_ms, elapsed_ms, finished_at)
    SELECT
        'http://site-' || n % {SITES} + 1 || '.bench/' || n, '', 0, n % {SITES} + 1,
        CASE WHEN n % 50 = 0 THEN 'failed' ELSE 'done' END, n % 3, 1, 5, '[]', '', '',
        CASE WHEN n % 50 = 0 THEN 'the site answered 503' ELSE '' END, '', n, 200, 1, 100,
        now() - interval '60 days' * (1 - n / {{size}}::float8)
    FROM generate_series({{before}} + 1, {{size}}) AS n
"""


def _fill(before: int, size: int) -> None:
    with database.hastily():
        if not before:
            database.run_at_length(fetching.SITES.format(before=0, size=SITES))
        with database.without_indexes("weir_fetches_fetch"):
            database.run_at_length(FILL.format(before=before, size=size))
    tables.vacuum()


def _costs(size: int, plans: Path) -> Iterator[tuple[str, float]]:
    yield from fetching.costs("ended", size, plans)
    yield "list_at_site", takes_ms(lambda: fetch_list(Filters(states=frozenset({"done"}), site=SITES // 2)))
    yield "list_failed", takes_ms(lambda: fetch_list(Filters(states=frozenset({"failed"}))))
    old = {"older_than": settings.WEIR_FETCH_RETENTION}
    # Leaves no time for a second batch.
    yield (
        f"purge_{purge.BATCH}",
        takes_ms(lambda: batches.delete(purge.PURGE_FETCHES, **old, batch=purge.BATCH, within_s=0)),
    )
    write_plan(plans, f"ended_purge_at_{size}", "weir.workers.fetches", "purge_fetches", {**old, "batch": purge.BATCH})


ENDED = Growth(
    name="ended",
    of="ended fetches",
    sizes=(1_000_000, 5_000_000, 15_000_000, 50_000_000),
    fill=_fill,
    costs=_costs,
    empty=tables.empty,
)
measure = partial(curves.measure, growth=ENDED)
