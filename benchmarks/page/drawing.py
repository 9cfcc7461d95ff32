"""The picture: an SVG with a background of its own, which is readable in light and in dark, and needs no font."""

from collections.abc import Iterator, Sequence
from html import escape
from typing import Final

from benchmarks.page.numbers import written
from benchmarks.page.rows import Row, Said, text

WIDTH: Final = 880
LEFT, WITHOUT, WITH = 24, 196, 580  # where the columns begin
BAR, BAR_OF_WEIR, BAR_HEIGHT = 340, 276, 4
HEAD, SAID, GAP, FOOT = 62, 60, 22, 16  # heights: of the headings, of what one side did, between jobs, below
ASKED_WIDTH: Final = 24  # characters of a line below the name of a job
STYLE: Final = """
    text { font-family: system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
    .ground { fill: #ffffff; stroke: #d0d7de; } .line { stroke: #d0d7de; }
    .job { fill: #1f2328; font-size: 18px; font-weight: 600; } .what { fill: #1f2328; font-size: 14px; }
    .quiet { fill: #59636e; font-size: 12px; } .number { font-size: 26px; font-weight: 700; }
    .bad { fill: #cf222e; } .good { fill: #1a7f37; } .track { fill: #d8dee4; }
    @media (prefers-color-scheme: dark) {
      .ground { fill: #0d1117; stroke: #3d444d; } .line { stroke: #3d444d; }
      .job, .what { fill: #f0f6fc; } .quiet { fill: #9198a1; }
      .bad { fill: #ff7b72; } .good { fill: #3fb950; } .track { fill: #3d444d; }
    }
"""


def svg(rows: Sequence[Row]) -> str:
    """Return the picture of these rows: the same for the same rows."""
    label = escape(f"What went wrong. {text(rows)}", quote=True)
    height = HEAD + sum(_height(row) for row in rows) + FOOT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{label}">',
        f"<title>{label}</title>",
        f"<style>{STYLE}</style>",
        f'<rect class="ground" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="8"/>',
        _text(WITHOUT, 36, "job", "Without Weir"),
        _text(WITH, 36, "job", "With Weir"),
        *_jobs(rows),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _height(row: Row) -> int:
    return GAP + SAID * len(row.without)


def _jobs(rows: Sequence[Row]) -> Iterator[str]:
    top = HEAD
    for row in rows:
        yield f'<line class="line" x1="{LEFT}" y1="{top - 8}" x2="{WIDTH - LEFT}" y2="{top - 8}"/>'
        yield _text(LEFT, top + 24, "job", row.job)
        for number, line in enumerate(_lines(row.asked)):
            yield _text(LEFT, top + 43 + 15 * number, "quiet", line)
        for number, said in enumerate(row.without):
            yield from _said(WITHOUT, top + SAID * number, BAR, said)
        yield from _said(WITH, top, BAR_OF_WEIR, row.weir)
        top += _height(row)


def _said(left: int, top: int, bar: int, said: Said) -> Iterator[str]:
    """Yield the number, what it counts, its share as a bar, and who did it."""
    colour = "bad" if said.bad else "good"
    of = escape(f" of {written(said.of)} {said.what}")
    yield (
        f'<text x="{left}" y="{top + 24}"><tspan class="number {colour}">{written(said.bad)}</tspan>'
        f'<tspan class="what" dx="4">{of}</tspan></text>'
    )
    share = said.bad / said.of if said.of else 0
    yield f'<rect class="track" x="{left}" y="{top + 31}" width="{bar}" height="{BAR_HEIGHT}" rx="2"/>'
    if said.bad:
        width = max(BAR_HEIGHT, round(bar * share))
        yield f'<rect class="bad" x="{left}" y="{top + 31}" width="{width}" height="{BAR_HEIGHT}" rx="2"/>'
    yield _text(left, top + 50, "quiet", f"{said.by}{f': {said.beside}' if said.beside else ''}")


def _lines(asked: str) -> Iterator[str]:
    line = ""
    for word in asked.split():
        if line and len(line) + 1 + len(word) > ASKED_WIDTH:
            yield line
            line = word
        else:
            line = f"{line} {word}".lstrip()
    yield line


def _text(left: int, baseline: int, of: str, words: str) -> str:
    return f'<text class="{of}" x="{left}" y="{baseline}">{escape(words)}</text>'
