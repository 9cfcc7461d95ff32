"""Growth: what Weir's work costs against how much is stored, as curves with exponents: `make bench ARGS=growth`.

Each module measures what work costs as one thing grows, and can be named alone: `ARGS=growth_queued`.
`ARGS=growth_table` prints what was measured in any run. Costs are medians with warm caches, after VACUUM ANALYZE; how
PostgreSQL executed the statements is written to `<folder>/growth`.
"""

from collections.abc import Iterable
from pathlib import Path

from benchmarks.figures import Figure
from benchmarks.growth import curves

OF: tuple[str, ...] = ("sites", "queued", "ended", "users", "emails")


def measure(folder: Path) -> Iterable[Figure]:
    """Print one table of all curves that were measured, in this run or before it; it has no figures of its own."""
    for name in OF:
        if found := curves.read(folder, name):
            curves.show(f"ms against {name}", found)
    return ()
