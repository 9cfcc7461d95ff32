"""Runs the statements that stand in `.sql` files: one statement a file, one round trip a call."""

from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, cast

import psycopg
from django.db import DEFAULT_DB_ALIAS, connections
from django.db.transaction import TransactionManagementError
from psycopg.rows import namedtuple_row


@cache
def _load(package: str, name: str) -> str:
    return files(package).joinpath("sql", f"{name}.sql").read_text(encoding="utf-8")


def load(package: str) -> None:
    """Read all statements of a package and of those below it, so that none has to be read later.

    A process that has run out of file descriptors can go on to execute what it has read.
    """
    root = Path(str(files(package)))
    for file in root.rglob("sql/**/*.sql"):
        parts = file.relative_to(root).with_suffix("").parts
        folder = parts.index("sql")
        _load(".".join((package, *parts[:folder])), "/".join(parts[folder + 1 :]))


def refuse_transaction(what: str) -> None:
    """Raise TransactionManagementError if a transaction is open; its text names `what` must not run in one."""
    if connections[DEFAULT_DB_ALIAS].in_atomic_block:
        raise TransactionManagementError(
            f"{what} must commit by itself: call it outside transaction.atomic(), "
            "for example in transaction.on_commit()."
        )


def run(package: str, name: str, parameters: Mapping[str, object], *, prepare: bool = False) -> list[Any]:
    """Execute `<package>/sql/<name>.sql` in a transaction of its own.

    `prepare` is for statements that touch a few rows very often ("prepared plan" in docs/explanation/sql.md).

    The statement has committed when this returns. Raises TransactionManagementError inside a transaction: what the
    statement reserves or claims must be committed before it is used, and must not be rolled back afterwards. Database
    errors are Django's (`django.db.Error`).
    """
    refuse_transaction(f"{package}/sql/{name}.sql")
    return run_within(package, name, parameters, prepare=prepare)


def run_within(package: str, name: str, parameters: Mapping[str, object], *, prepare: bool = False) -> list[Any]:
    """Execute the statement as `run` does, but in the caller's transaction, if one is open."""
    database = connections[DEFAULT_DB_ALIAS]
    database.ensure_connection()
    # Django's own cursors write the values into the text, and cannot prepare it.
    raw = cast("psycopg.Connection[Any]", database.connection)
    with database.wrap_database_errors, psycopg.Cursor(raw, row_factory=namedtuple_row) as cursor:
        cursor.execute(_load(package, name), parameters, prepare=prepare, binary=True)
        return cursor.fetchall() if cursor.description else []


def bigints(numbers: Iterable[int]) -> str:
    """Return many numbers as the text of an array parameter: psycopg takes four times as long for a list."""
    return "{" + ",".join(map(str, numbers)) + "}"
