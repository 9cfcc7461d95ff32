"""A curve: what a piece of work costs while one thing grows, at a few sizes, and the exponent of that growth.

The exponent is the slope of the line that fits the logarithms of the costs to those of the sizes best (least squares):
1 if the cost doubles with the size, 0 if it does not depend on it. A cost that grows only from some size on shows in
the exponent of the last step alone, from the second largest size to the largest.
"""

import json
import math
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import linear_regression, median

from django.db import connection

from benchmarks.figures import Figure, print_table

SHARE = float(os.environ.get("WEIR_BENCH_SHARE", "1"))  # of the sizes; use less while developing
ROUNDS = 7
INDIFFERENT = 0.1  # with a smaller exponent, a cost does not depend on the size: measurements differ as much
EXPONENT = "(0 = does not depend on the size, 1 = grows as it does)"
DISK = "SELECT pg_database_size(current_database()) / 1e9"
Point = tuple[int, float]
Costs = Iterable[tuple[str, float]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Growth:
    """What grows, and what is measured at each size."""

    name: str
    of: str  # what grows, in the plural
    sizes: Sequence[int]
    fill: Callable[[int, int], object]  # from one size, at first 0, to the next; with fresh statistics
    costs: Callable[[int, Path], Costs]  # of each curve in ms, at this size; plans are written to the folder
    empty: Callable[[], object]


def measure(folder: Path, growth: Growth) -> Iterator[Figure]:
    """Yield the cost of each curve at each size, and then the exponents; leave empty tables, also after an error."""
    plans = folder / "growth"
    plans.mkdir(parents=True, exist_ok=True)
    points: dict[str, list[Point]] = defaultdict(list)
    growth.empty()
    try:
        before = 0
        for size in (int(size * SHARE) for size in growth.sizes):
            yield from _filled(growth, before, size)
            for what, cost_ms in growth.costs(size, plans):
                curve = f"{growth.name}_{what}"
                points[curve].append((size, cost_ms))
                yield Figure(name=f"growth_{curve}_at_{size}", value=cost_ms, unit="ms")
            before = size
    finally:
        growth.empty()
    for curve, of_curve in points.items():
        if len(of_curve) < 2:
            continue  # a search ends when it has found enough: with fewer rows it does not get that far
        yield Figure(name=f"growth_{curve}_exponent", value=exponent(of_curve), unit=EXPONENT)
        yield Figure(name=f"growth_{curve}_exponent_of_last_step", value=exponent(of_curve[-2:]), unit=EXPONENT)
    show(f"ms against {growth.of}", points)


def _filled(growth: Growth, before: int, size: int) -> Iterator[Figure]:
    began = time.perf_counter()
    growth.fill(before, size)
    yield Figure(name=f"{growth.name}_filled_at_{size}", value=time.perf_counter() - began, unit="s")
    with connection.cursor() as cursor:
        cursor.execute(DISK)
        yield Figure(name=f"{growth.name}_database_at_{size}", value=float(cursor.fetchone()[0]), unit="GB")


def exponent(points: Sequence[Point]) -> float:
    """Return the exponent of a curve of two points or more."""
    logarithms = [(math.log(size), math.log(cost)) for size, cost in points]
    return linear_regression(*zip(*logarithms, strict=True)).slope


def in_words(of_growth: float) -> str:
    """Say what an exponent means."""
    if abs(of_growth) < INDIFFERENT:
        return "does not depend on the size"
    return f"ten times the size costs {10**of_growth:.2g} times as much"


def show(title: str, curves: Mapping[str, Sequence[Point]]) -> None:
    """Print a table of those curves that have two points or more."""
    sizes = sorted({size for points in curves.values() for size, _ in points})
    rows = []
    for curve, points in curves.items():
        if len(points) > 1:
            cells = (f"{cost:.3g}" if (cost := dict(points).get(size)) else "" for size in sizes)
            slope = exponent(points)
            rows.append((curve, *cells, f"{slope:z.2f}", f"{exponent(points[-2:]):z.2f}", in_words(slope)))
    print_table(title, ("curve", *(f"{size:,}" for size in sizes), "exponent", "last step", "that is"), rows)


def read(folder: Path, name: str) -> dict[str, list[Point]]:
    """Return the curves that the last measurement of a growth has written, even if it ended in the middle."""
    curves: dict[str, list[Point]] = defaultdict(list)
    path = folder / f"growth_{name}.json"
    for figure, entry in json.loads(path.read_text() if path.exists() else "{}").items():
        curve, at, size = figure.removeprefix("growth_").rpartition("_at_")
        if at and entry["unit"] == "ms":
            curves[curve].append((int(size), float(entry["value"])))
    return curves


def takes_ms(work: Callable[[], object], before: Callable[[], object] = lambda: None) -> float:
    """Return the median time of some runs of the work, after one more that is not measured; `before` precedes each."""
    times = []
    for _ in range(1 + ROUNDS):
        before()
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return median(times[1:]) * 1e3
