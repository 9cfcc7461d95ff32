"""What a Weir that does nothing costs, and how soon it begins what it is asked for: `make bench ARGS=idle`.

Measured twice, with the processes of the Procfile and with those of Procfile.split, on servers of their own: the
processor and the memory of each kind of process and of the servers over a minute, and then three latencies. Memory is
the proportional set size: memory that several processes share counts once.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks.fetches import own_processes
from benchmarks.figures import Figure, print_table
from benchmarks.idle import latencies, layouts
from benchmarks.idle.layouts import Cost
from benchmarks.once import queues

LAYOUTS: Mapping[str, tuple[str, ...]] = {
    "procfile": ("web", "worker", "weir"),
    "split": ("web", "worker", "ticks", "maintenance", "fetcher", "mailer", "beat"),
}


def measure(folder: Path) -> Iterator[Figure]:
    """Yield the costs and the latencies of each layout. Work that other benchmarks have left is deleted before."""
    own_processes.empty()
    queues.empty()
    with latencies.fakes(folder) as fakes:
        for layout, kinds in LAYOUTS.items():
            with layouts.running(kinds, folder / f"{layout}.log", fakes.environment) as weir:
                costs = weir.costs()
                _print(layout, costs)
                yield from _figures(layout, costs)
                yield from latencies.measure(layout, fakes)


def _print(layout: str, costs: Mapping[str, Cost]) -> None:
    rows = [(name, f"{cost.processor:.2%}", f"{cost.memory_mb:.0f}") for name, cost in costs.items()]
    print_table(f"Idle: {layout}", ("process", "of a processor", "MB"), rows)


def _figures(layout: str, costs: Mapping[str, Cost]) -> Iterator[Figure]:
    processor, memory_mb = (sum(column) for column in zip(*costs.values(), strict=True))
    yield Figure(name=f"idle_{layout}_processor", value=100 * processor, unit="% of a core")
    yield Figure(name=f"idle_{layout}_memory", value=memory_mb, unit="MB")
