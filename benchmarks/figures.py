"""The results of a benchmark: figures with names and units, printed and written as JSON."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from project.checkout import CHECKOUT

FOLDER: Final = CHECKOUT / ".weir" / "bench"  # what was measured here
KEPT: Final = CHECKOUT / "docs" / "measured"  # what is kept of it
PAGE: Final = CHECKOUT / "docs" / "measured.md"  # the page that is made of the kept figures
README: Final = CHECKOUT / "README.md"  # which begins with some of them
PICTURE: Final = CHECKOUT / "docs" / "images" / "picture.svg"  # the same, drawn


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One measured figure."""

    name: str
    value: float
    unit: str


def print_table(title: str, headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print numbers for people, one row a turn."""
    table = Table(title=title)
    for heading in headings:
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(*row)
    Console(width=140).print(table)


def publish(benchmark: str, figures: Iterable[Figure], folder: Path) -> None:
    """Print each figure on a line of its own, and write them to `<folder>/<benchmark>.json`.

    Figures that come one after the other are printed and written as they come: a stopped run keeps those it had.
    """
    folder.mkdir(parents=True, exist_ok=True)
    entries: dict[str, dict[str, object]] = {}
    for figure in figures:
        print(f"{figure.name}: {figure.value:.4g} {figure.unit}", flush=True)
        entries[figure.name] = {"value": figure.value, "unit": figure.unit}
        (folder / f"{benchmark}.json").write_text(json.dumps(entries, indent=2) + "\n")
