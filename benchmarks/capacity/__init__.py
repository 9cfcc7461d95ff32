"""What one PostgreSQL carries: what a fetch and a fetcher take of it, and a simulation of up to 1,000 fetchers.

`fetching` measures a running Weir, `simulation` has pgbench ask what so many fetchers ask. All takes three minutes.
What follows by arithmetic is not here: benchmarks/page/capacity.py reckons it of these figures.
"""

from collections.abc import Iterator
from pathlib import Path

from benchmarks.capacity import fetching, simulation
from benchmarks.figures import Figure


def measure(folder: Path) -> Iterator[Figure]:
    """Yield the figures of both, as soon as they are there."""
    own = folder / "capacity"
    own.mkdir(parents=True, exist_ok=True)
    yield from fetching.measure(own)
    yield from simulation.measure(own)
