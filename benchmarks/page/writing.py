"""The tables of docs/measured.md, and that of README: each stands between two comments of the page, which stay.

They are made of the figures in docs/measured, so that one benchmark can be measured anew without the others. A missing
figure is left out. A table without figures says how it is measured.
"""

import json
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.figures import FOLDER, KEPT, PAGE, PICTURE, README
from benchmarks.page import capacity, groups, picture
from benchmarks.page.lines import TABLES, Line, Peer, Table
from benchmarks.page.numbers import Number, cell, written
from benchmarks.provenance import FILE

Figures = Mapping[str, Number]
_CAME_FROM: Final = {
    "day": "Day",
    "commit": "Commit",
    "machine": "Machine",
    "python": "Python",
    "postgresql": "PostgreSQL",
    "valkey": "Valkey",
}
_ALWAYS: Final = {"day", "commit"}  # have a column, even if all benchmarks agree


class Found(NamedTuple):
    """What the folder has: the figures of each benchmark, and where they come from."""

    figures: Mapping[str, Figures]
    provenance: Mapping[str, Mapping[str, str]]


def renew() -> None:
    """Keep what was measured here, and make the pages, and the picture, of all that is kept."""
    keep(FOLDER, KEPT)
    write(PAGE, KEPT)
    write_picture(README, PICTURE, KEPT)


def keep(folder: Path, kept: Path) -> None:
    """Copy the figures of each benchmark that has run with its full sizes, and where they come from."""
    kept.mkdir(exist_ok=True)
    said = _provenance_in(kept)
    for name, came in _provenance_in(folder).items():
        if not came["sizes"] and (figures := folder / f"{name}.json").exists():
            shutil.copyfile(figures, kept / figures.name)
            said[name] = came
    (kept / FILE).write_text(json.dumps(said, indent=2) + "\n")


def write(page: Path, kept: Path) -> None:
    """Put what was measured into the page."""
    found = read(kept)
    text = page.read_text()
    for mark, content in _contents(found).items():
        text = _replaced(text, mark, content)
    page.write_text(text)


def write_picture(readme: Path, image: Path, kept: Path) -> None:
    """Draw what goes wrong without Weir, and put it into README with its figures; nothing if it was not measured."""
    found = read(kept)
    if figures := found.figures.get("picture"):
        image.write_text(picture.drawn(figures))
        content = picture.content(figures, found.provenance["picture"], "docs/images/picture.svg")
        readme.write_text(_replaced(readme.read_text(), "picture", content))


def read(kept: Path) -> Found:
    """Return the figures whose provenance is known."""
    provenance = _provenance_in(kept)
    figures = {
        name: {figure: Number(**said) for figure, said in json.loads(path.read_text()).items()}
        for name in provenance
        if (path := kept / f"{name}.json").exists()
    }
    return Found(figures, provenance)


def _provenance_in(folder: Path) -> dict[str, dict[str, str]]:
    file = folder / FILE
    return json.loads(file.read_text()) if file.exists() else {}


def _contents(found: Found) -> dict[str, str]:
    tables = {mark: _table(table, found.figures.get(table.benchmark, {})) for mark, table in TABLES.items()}
    of_capacity = found.figures.get("capacity", {})
    grown = {
        name: number
        for benchmark, of in found.figures.items()
        if benchmark.startswith("growth")
        for name, number in of.items()
    }
    return {
        "provenance": _provenance(found),
        **tables,
        "lateness": groups.far(found.figures.get("far_database", {})) or _not_measured("far_database"),
        "growth": groups.growth(grown) or _not_measured("growth"),
        "idle": groups.idle(found.figures.get("idle", {})) or _not_measured("idle"),
        "capacity measured": capacity.measured(of_capacity) or _not_measured("capacity"),
        "capacity reckoned": capacity.reckoned(of_capacity) or _not_measured("capacity"),
    }


def _not_measured(benchmark: str) -> str:
    return f"Not measured yet: `make bench ARGS={benchmark}` does."


def _table(table: Table, figures: Figures) -> str:
    """Return a row for each line that was measured, and a column for each peer."""
    lines = [line for line in table.lines if line.figure in figures]
    peers = dict.fromkeys(peer.name for line in lines for peer in line.peers if peer.figure in figures)
    rows = [_row(line, figures, peers) for line in lines]
    header = f"| | {' | '.join([table.ours, *peers])} |\n{'|---' * (2 + len(peers))}|"
    return "\n".join([header, *rows]) if rows else _not_measured(table.benchmark)


def _row(line: Line, figures: Figures, peers: Iterable[str]) -> str:
    of = {peer.name: peer for peer in line.peers}
    cells = [cell(figures[line.figure]), *(_beside(of.get(name), figures) for name in peers)]
    return f"| {' | '.join([line.what, *cells])} |"


def _beside(peer: Peer | None, figures: Figures) -> str:
    """Return the peer's figure and, in brackets, the ratio of the rounds; nothing if it was not measured."""
    if peer is None or peer.figure not in figures:
        return ""
    theirs = cell(figures[peer.figure])
    return f"{theirs} ({written(figures[peer.ratio].value)} x)" if peer.ratio in figures else theirs


def _provenance(found: Found) -> str:
    """Return a row for each day, commit, machine and version, with its benchmarks; and what all have in common."""
    said = {
        name: dict.fromkeys(found.provenance[benchmark][name] for benchmark in found.figures) for name in _CAME_FROM
    }
    columns = [name for name, values in said.items() if name in _ALWAYS or len(values) > 1]
    alike: dict[tuple[str, ...], list[str]] = {}
    for benchmark in found.figures:
        alike.setdefault(tuple(found.provenance[benchmark][name] for name in columns), []).append(benchmark)
    if not alike:
        return "Not measured yet: `make bench` does."
    header = f"| Benchmarks | {' | '.join(_CAME_FROM[name] for name in columns)} |\n{'|---' * (1 + len(columns))}|"
    rows = [f"| {', '.join(benchmarks)} | {' | '.join(values)} |" for values, benchmarks in alike.items()]
    peers = dict.fromkeys(peer for name in found.figures for peer in found.provenance[name]["peers"].split(", "))
    common = [f"{_CAME_FROM[name]}: {next(iter(said[name]))}." for name in _CAME_FROM if name not in columns]
    return "\n".join([header, *rows, "", " ".join([*common, f"Peers: {', '.join(peers)}."])])


def _replaced(text: str, mark: str, content: str) -> str:
    begin, end = f"<!-- begin: {mark} -->", f"<!-- end: {mark} -->"
    first, last = text.index(begin) + len(begin), text.index(end)
    return f"{text[:first]}\n\n{content}\n\n{text[last:]}"
