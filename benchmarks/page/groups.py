"""The tables whose lines follow from the names of figures: growth against size, and what idle processes cost."""

import re
from collections.abc import Mapping

from benchmarks.page.numbers import Number, cell

_AT = re.compile(r"^growth_(?P<curve>.+)_at_(?P<size>\d+)$")
_EXPONENTS = ("exponent", "exponent_of_last_step")
_LAYOUTS = {"procfile": "Procfile", "split": "Procfile.split"}
_IDLE = {
    "processor": "Processor, servers included",
    "memory": "Memory, servers included",
    "fetch_p50": "A fetch: from its commit to its request, p50",
    "fetch_p99": "p99",
    "notify_p50": "A notification: from its commit to the stored number, p50",
    "notify_p99": "p99",
    "send_once_p50": "An e-mail: from its commit to the end of its content at the mail server, p50",
    "send_once_p99": "p99",
}


def growth(figures: Mapping[str, Number]) -> str:
    """Return a table of the curves: their points, and their exponents; nothing without a curve."""
    curves: dict[str, dict[int, Number]] = {}
    for name, number in figures.items():
        if at := _AT.match(name):
            curves.setdefault(at["curve"], {})[int(at["size"])] = number
    rows = [
        f"| {curve.replace('_', ' ')} | {_points(points)} | "
        + " | ".join(_exponent(figures.get(f"growth_{curve}_{name}")) for name in _EXPONENTS)
        + " |"
        for curve, points in curves.items()
    ]
    header = ["| Curve | At the sizes | Exponent | Of the last step |", "|---|---|---|---|"]
    return "\n".join([*header, *rows]) if rows else ""


def _points(points: Mapping[int, Number]) -> str:
    return "; ".join(f"{size:,}: {cell(number)}" for size, number in sorted(points.items()))


def _exponent(number: Number | None) -> str:
    return "not fitted" if number is None else f"{number.value:z.2f}"


def idle(figures: Mapping[str, Number]) -> str:
    """Return what each layout costs, and how soon it begins; nothing where it was not measured."""
    rows = [
        f"| {what} | " + " | ".join(_idle_cell(figures.get(f"idle_{layout}_{name}")) for layout in _LAYOUTS) + " |"
        for name, what in _IDLE.items()
        if any(f"idle_{layout}_{name}" in figures for layout in _LAYOUTS)
    ]
    header = [f"| | {' | '.join(_LAYOUTS.values())} |", "|---|---|---|"]
    return "\n".join([*header, *rows]) if rows else ""


def _idle_cell(number: Number | None) -> str:
    return "" if number is None else cell(number)
