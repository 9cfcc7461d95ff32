"""What one PostgreSQL carries: what a fetch and a fetcher take of it, and a simulation of up to 1,000 fetchers.

`fetching` measures a running Weir; in `simulation`, pgbench sends the queries of this many fetchers. Both together take
three minutes. benchmarks/page/capacity.py computes from these figures what follows by arithmetic.
"""

from collections.abc import Iterator
from pathlib import Path

from benchmarks.capacity import fetching, simulation
from benchmarks.figures import Figure


def measure(folder: Path) -> Iterator[Figure]:
    """Yield the figures of both as soon as they are known."""
    own = folder / "capacity"
    own.mkdir(parents=True, exist_ok=True)
    yield from fetching.measure(own)
    yield from simulation.measure(own)
