"""The beginning of README: the picture of what goes wrong without Weir, and the same figures as a table."""

from collections.abc import Mapping

from benchmarks.page import drawing, rows
from benchmarks.page.numbers import Number, written
from benchmarks.page.rows import Row, Said


def content(figures: Mapping[str, Number], came: Mapping[str, str], image: str) -> str:
    """Return the picture with the figures as its alternative text, their table, and where they come from."""
    found = _rows(figures)
    kills = written(figures["picture_weir_kills"].value)
    return "\n".join(
        [
            f"![{rows.text(found)}]({image})",
            "",
            "| | Without Weir | With Weir |",
            "|---|---|---|",
            *(_line(row) for row in found),
            "",
            (
                "Both sides had work all the time. On each side, a process of every kind that does a job was killed "
                f"(SIGKILL) {kills} times."
            ),
            f"Measured on {came['day']} at commit {came['commit']}, on {came['machine']}.",
        ]
    )


def drawn(figures: Mapping[str, Number]) -> str:
    """Return the picture itself."""
    return drawing.svg(_rows(figures))


def _rows(figures: Mapping[str, Number]) -> list[Row]:
    return rows.of({name: of.value for name, of in figures.items()})


def _line(row: Row) -> str:
    without = "<br>".join(f"{said.by}: {_strong(said)}" for said in row.without)
    return f"| **{row.job}** | {without} | {_strong(row.weir)} |"


def _strong(said: Said) -> str:
    """Return what a side did; the number that went wrong stands out."""
    bad, rest = str(said).split(" ", 1)
    return f"**{bad}** {rest}"
