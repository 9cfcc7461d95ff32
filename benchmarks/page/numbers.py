"""Numbers as readers see them, with their units."""

from typing import NamedTuple


class Number(NamedTuple):
    """A figure as a benchmark wrote it."""

    value: float
    unit: str


def written(value: float) -> str:
    """Return the number with three digits, or with all before the point: 4103 is `4,103`, 0.2081 is `0.208`."""
    if value and abs(value) < 100:
        return f"{value:.3g}"
    return f"{value:,.0f}"


def cell(number: Number) -> str:
    """Return the number with its unit."""
    return f"{written(number.value)} {number.unit}"
