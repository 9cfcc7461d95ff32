"""The tables of docs/reference/versions.md, which the runs themselves write."""

import datetime as dt
import re
from collections.abc import Sequence
from pathlib import Path

from tests.matrix.machine import Source
from tests.matrix.pytest_runs import Result
from tests.matrix.versions import ALL, Versions, parsed

HEADER = """\
| Run | Day | Exact versions | Passed | Failed | Skipped |
|---|---|---|---|---|---|
"""


def write(page: Path, result: Result, planned: Sequence[Versions], lacking: Sequence[Source]) -> None:
    """Put the result into the table, in the place of an older one of the same run; say what was not tried."""
    text = page.read_text()
    rows = _rows(text) | {result.run: _row(result)}
    text = _replaced(text, "runs", HEADER + "\n".join(rows[run] for run in sorted(rows, key=_rank)))
    page.write_text(_replaced(text, "not tried", "\n".join(_not_tried(rows, planned, lacking)) or "Nothing."))


def _not_tried(rows: dict[Versions, str], planned: Sequence[Versions], lacking: Sequence[Source]) -> list[str]:
    tried = {item for run in rows for item in run._asdict().items()}
    lines = [
        f"- {found.label}: the machine had none ({found.remedy})."
        for found in lacking
        if (found.kind, found.value) not in tried
    ]
    missing = {pair for run in planned for pair in run.pairs} - {pair for run in rows for pair in run.pairs}
    return lines + ([f"- {len(missing)} pairs of the rest: `make matrix` runs them."] if missing else [])


def _rows(text: str) -> dict[Versions, str]:
    """Return the lines that the table has, by their runs."""
    found = re.findall(r"^\| `(\S+)` \|.*$", _between(text, "runs"), re.MULTILINE)
    lines = [line for line in _between(text, "runs").splitlines() if line.startswith("| `")]
    return {parsed(name): line for name, line in zip(found, lines, strict=True)}


def _row(result: Result) -> str:
    exact = result.exact
    cells = [f"`{result.run.name}`", dt.datetime.now(dt.UTC).date().isoformat()]
    cells.append(f"{exact.python}, {exact.django}, {exact.postgresql}, {exact.redis}")
    cells += [f"{result.passed:,}", str(result.failed), str(result.skipped)]
    return f"| {' | '.join(cells)} |"


def _rank(run: Versions) -> list[int]:
    return [ALL[kind].index(value) for kind, value in run._asdict().items()]


def _between(text: str, name: str) -> str:
    begin, end = _place(text, name)
    return text[begin:end]


def _replaced(text: str, name: str, content: str) -> str:
    begin, end = _place(text, name)
    return f"{text[:begin]}\n\n{content}\n\n{text[end:]}"


def _place(text: str, name: str) -> tuple[int, int]:
    """Return where what is written begins and ends: between two comments of the page, which stay."""
    begin, end = f"<!-- begin: {name} -->", f"<!-- end: {name} -->"
    return text.index(begin) + len(begin), text.index(end)
