"""How long Weir's own statements take, and how PostgreSQL executes them.

Their parameters are those with which Weir's code last ran them within `recorded()`.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from statistics import median
from typing import Any, cast

import psycopg
from django.db import connection

from benchmarks import database
from benchmarks.figures import Figure
from weir.postgres import statements
from weir.postgres.statements import Statement

ROUNDS = 5
_parameters: dict[str, Mapping[str, object]] = {}


@contextmanager
def recorded() -> Iterator[None]:
    """Record the parameters with which Weir's code runs its statements."""
    execute = statements.execute

    def noted(statement: Statement[Any], parameters: Mapping[str, object], *database: Any) -> list[Any]:
        _parameters[f"{statement.room}.{statement.name}"] = dict(parameters)
        return execute(statement, parameters, *database)

    statements.execute = cast("Any", noted)
    try:
        yield
    finally:
        statements.execute = execute


def statement_takes(
    folder: Path, name: str, room: str, statement: str, changed: Mapping[str, object] | None = None
) -> Figure:
    """Return the median time of a statement in ms, without a commit: each execution is rolled back.

    `changed` replaces parameters. The plan is written to `<folder>/<name>.txt`.
    """
    text, parameters = _recorded(room, statement, changed)
    connection.ensure_connection()
    raw = cast("psycopg.Connection[Any]", connection.connection)
    times = []
    for _ in range(ROUNDS):
        with raw.transaction(force_rollback=True), psycopg.Cursor(raw) as cursor:
            began = time.perf_counter()
            cursor.execute(text, parameters, prepare=False, binary=True).fetchall()
            times.append(time.perf_counter() - began)
    write_plan(folder, name, room, statement, changed)
    return Figure(name=f"scale_{name}", value=median(times) * 1000, unit="ms")


def write_plan(folder: Path, name: str, room: str, statement: str, changed: Mapping[str, object] | None = None) -> None:
    """Execute a statement once more, roll it back, and write how PostgreSQL executed it to `<folder>/<name>.txt`."""
    (folder / f"{name}.txt").write_text(database.explain(*_recorded(room, statement, changed)) + "\n")


def _recorded(room: str, statement: str, changed: Mapping[str, object] | None) -> tuple[str, dict[str, object]]:
    text = files(room).joinpath("sql", f"{statement}.sql").read_text(encoding="utf-8")
    return text, database.GATE | dict(_parameters.get(f"{room}.{statement}", {})) | dict(changed or {})


def call_takes(name: str, call: Callable[[], object]) -> Figure:
    """Return the time of a call in ms, commits and messages included."""
    began = time.perf_counter()
    call()
    return Figure(name=f"scale_{name}", value=(time.perf_counter() - began) * 1000, unit="ms")
