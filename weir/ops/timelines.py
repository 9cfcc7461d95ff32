"""The slots of a site as the paths of an SVG, with a row for each fate and a stroke for each slot. Pure functions."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from weir.workers.fetches.reports.timeline import Timeline

WIDTH: Final = 1_000
LEFT: Final = 130  # where the rows begin, after their names
ROW: Final = 22
STROKE: Final = 14
TOP: Final = 8
# The fates of slots, in the order of the rows, each with the CSS class of its strokes.
FATES: Final = (
    ("used", "slots"),
    ("reserved", "slots"),
    ("given back", "slots-soft"),
    ("void", "slots-soft"),
    ("missed", "slots-bad"),
    ("unreported", "slots-bad"),
)
TICK_S: Final = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class TimelineRow:
    """The slots of one fate."""

    fate: str
    css: str
    slots: int
    y: float
    path: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Picture:
    """What the template draws."""

    rows: tuple[TimelineRow, ...]
    ticks: tuple[tuple[float, str], ...]
    now_x: float
    crop: str  # which part of it a narrow screen shows, in SVG's words: the one with the present
    width: int
    height: int
    alternative: str


def picture(of: Timeline) -> Picture:
    """Draw the slots from `past_s` ago to `ahead_s` from now."""
    scale = (WIDTH - LEFT - 10) / (of.past_s + of.ahead_s)

    def x(in_s: float) -> float:
        return round(LEFT + (min(max(in_s, -of.past_s), of.ahead_s) + of.past_s) * scale, 1)

    rows: list[TimelineRow] = []
    for fate, css in FATES:
        starts = [x(slot.start_in_s) for slot in of.slots if slot.fate == fate]
        y = TOP + len(rows) * ROW
        path = "".join(f"M{start:g} {y}v{STROKE}" for start in starts)
        rows.append(TimelineRow(fate=fate, css=css, slots=len(starts), y=y + STROKE * 0.8, path=path))
    return Picture(
        rows=tuple(rows),
        ticks=tuple((x(at), label) for at, label in _ticks(of)),
        now_x=x(0),
        crop=("xMinYMid", "xMidYMid", "xMaxYMid")[min(int(x(0) / WIDTH * 3), 2)],
        width=WIDTH,
        height=TOP + len(rows) * ROW + 20,
        alternative=_words(of, rows),
    )


def _ticks(of: Timeline) -> Iterator[tuple[float, str]]:
    at = -int(of.past_s // TICK_S) * TICK_S
    while at <= of.ahead_s:
        yield at, "now" if at == 0 else f"{at:+d} s"
        at += TICK_S


def _words(of: Timeline, rows: list[TimelineRow]) -> str:
    counted = ", ".join(f"{row.slots} {row.fate}" for row in rows if row.slots) or "none"
    return f"Slots from {of.past_s:.0f} s ago to {of.ahead_s:.0f} s ahead: {counted}."
