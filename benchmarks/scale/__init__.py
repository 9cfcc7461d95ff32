"""Scale: what runs all the time, with 100,000 sites and 1,000,000 queued fetches, and with an old snapshot open.

`EXPLAIN (ANALYZE, BUFFERS)` of each statement is written to `<folder>/scale/<statement>.txt`.
"""

from pathlib import Path

from benchmarks.figures import Figure
from benchmarks.scale import housekeeping, snapshots, tables, ticks, waiting


def measure(folder: Path) -> list[Figure]:
    """Return the figures of all modules; the first three share one filling of the tables."""
    plans = folder / "scale"
    plans.mkdir(parents=True, exist_ok=True)
    tables.fill()
    figures = [*ticks.measure(plans), *housekeeping.measure(plans), *waiting.measure(plans)]
    tables.empty()
    figures += snapshots.measure(plans)
    tables.empty()
    return figures
