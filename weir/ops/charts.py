"""Charts of counted things, as the paths of an SVG that the server draws. Pure functions.

If nothing is known about a time, the chart has a gap there, and its text says how long the gaps are. Only a value that
was counted as zero is drawn as zero.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

HEIGHT: Final = 100.0  # the drawing's height, in its own units; its width is the number of points

Values = Sequence[float | None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Series:
    """Values that are drawn as an area of one colour, on top of the series before."""

    name: str
    css: str  # the CSS class of the area
    values: Values


@dataclass(frozen=True, kw_only=True, slots=True)
class ChartGap:
    """Consecutive points about which nothing is known."""

    first: int
    points: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Chart:
    """An SVG, and the same content in words."""

    title: str
    alternative: str
    points: int
    areas: tuple[tuple[str, str], ...]  # class and path
    keys: tuple[tuple[str, str], ...]  # class and meaning
    gaps: tuple[ChartGap, ...]
    most: str
    begins: str

    @property
    def is_empty(self) -> bool:
        return not self.points or sum(gap.points for gap in self.gaps) == self.points


def chart(title: str, series: Sequence[Series], *, step: str, over: str) -> Chart:
    """Draw the series on top of each other. One point covers `step`, such as "5 min"; all points together, `over`."""
    totals = [_sum(point) for point in zip(*(one.values for one in series), strict=True)]
    top = max((total for total in totals if total is not None), default=0.0)
    gaps = tuple(_gaps(totals))
    return Chart(
        title=title,
        alternative=_words(title, series, totals, step=step, over=over),
        points=len(totals),
        areas=tuple(_areas(series, top)),
        keys=(*((one.css, one.name) for one in series), *([("gap", "not known")] if gaps else [])),
        gaps=gaps,
        most=f"at most {top:,.0f} in {step}",
        begins=f"{over} ago",
    )


def _areas(series: Sequence[Series], top: float) -> Iterator[tuple[str, str]]:
    """Yield the areas, the highest first, because each lower area is drawn over the higher ones."""
    below: list[float | None] = [0.0] * len(series[0].values)
    heights = []
    for one in series:
        below = [_sum(pair) for pair in zip(below, one.values, strict=True)]
        heights.append((one.css, below))
    for css, values in reversed(heights):
        yield css, _steps(values, top)


def _steps(values: Values, top: float) -> str:
    """Return the path of an area with steps. The path ends at each gap, and begins again after the gap."""
    parts, is_open = [], False
    for x, value in enumerate(values):
        if value is None:
            parts.append(f"V{HEIGHT:g}z" if is_open else "")
            is_open = False
            continue
        y = HEIGHT if not top else HEIGHT - value / top * HEIGHT
        parts.append(f"{'' if is_open else f'M{x} {HEIGHT:g}'}V{y:.3g}H{x + 1}")
        is_open = True
    return "".join(parts) + (f"V{HEIGHT:g}z" if is_open else "")


def _gaps(totals: Values) -> Iterator[ChartGap]:
    first: int | None = None
    for x, total in enumerate([*totals, 0.0]):
        if total is None:
            first = x if first is None else first
        elif first is not None:
            yield ChartGap(first=first, points=x - first)
            first = None


def _sum(point: Sequence[float | None]) -> float | None:
    known = [value for value in point if value is not None]
    return sum(known) if len(known) == len(point) else None


def _words(title: str, series: Sequence[Series], totals: Values, *, step: str, over: str) -> str:
    known = sum(total is not None for total in totals)
    if not known:
        return f"{title}: nothing is known of the last {over} yet."
    sums = ", ".join(f"{_total(one.values):,.0f} {one.name}" for one in series)
    missing = len(totals) - known
    gaps = f" Of {missing} of {len(totals)} steps of {step}, nothing is known." if missing else ""
    return f"{title}, the last {over} in steps of {step}: {sums}.{gaps}"


def _total(values: Values) -> float:
    return sum(value for value in values if value is not None)
