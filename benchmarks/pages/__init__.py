"""Pages: what operators see and what Prometheus reads, with millions of fetches, 100,000 sites and a week of history.

Each page is asked for by Django's test client, in this process, which keeps its connection to PostgreSQL. No other
process of Weir runs. /metrics shows as many sites by name as it may. For each page:

- `cold`: the first answer, while no snapshot is kept, and `cold_worst` of a few such answers;
- `p50` and `p99` of many answers of the whole page, and of the fragment that tabs ask for, while snapshots are kept;
- `statements`: how many a cold answer executes;
- `reads_whole`: how many of them read a large table, or half of one, from end to end.

The plans of the statements of a cold answer, as they are executed, are written to `<folder>/pages/<page>.txt`, and
those that read a large table from end to end to `<folder>/pages/whole.txt`.
"""

from collections.abc import Iterator
from pathlib import Path

from django.test import override_settings

from benchmarks.figures import Figure
from benchmarks.pages import answers, tables, visits
from benchmarks.pages.size import LARGE, Size
from weir.ops.metrics.parts.sites import MOST_SITES


def measure(folder: Path, size: Size = LARGE) -> Iterator[Figure]:
    """Yield the figures of each page, each as soon as it is known, and leave empty tables."""
    plans = folder / "pages"
    plans.mkdir(parents=True, exist_ok=True)
    yield from tables.fill(size)
    with override_settings(WEIR_METRICS_SITES=[f"site-{number}.bench" for number in range(1, MOST_SITES + 1)]):
        yield from answers.measure(visits.visits(size), plans, size)
    tables.empty()
