"""Runs the statements that stand in `.sql` files: one statement a file, one round trip a call."""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, cast

import psycopg
from django.db import DEFAULT_DB_ALIAS, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.transaction import TransactionManagementError
from psycopg.rows import namedtuple_row


@cache
def _load(package: str, name: str) -> str:
    return files(package).joinpath("sql", f"{name}.sql").read_text(encoding="utf-8")


_thread = threading.local()


def before_each(call: Callable[[], None]) -> None:
    """Have this called before each statement that this thread executes."""
    _thread.before_each = call


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
    return _run_on(connections[DEFAULT_DB_ALIAS], package, name, parameters, prepare=prepare)


@contextmanager
def own_transaction(package: str) -> Iterator[Callable[[str, Mapping[str, object]], list[Any]]]:
    """Run statements of the package in a transaction that is not the caller's, and commits at the end of the block.

    Yields a function that executes one, given its name and its parameters. What it changes stays, also where the caller
    rolls back; and no other process waits for the caller's transaction. While a transaction is open, this takes a
    second connection for the time of the block. Database errors are Django's.
    """
    callers = connections[DEFAULT_DB_ALIAS]
    is_open = callers.in_atomic_block or not callers.get_autocommit()
    database = callers.copy() if is_open else callers
    try:
        database.ensure_connection()
        with database.wrap_database_errors, _raw(database).transaction():
            yield lambda name, parameters: _run_on(database, package, name, parameters)
    finally:
        if database is not callers:
            database.close()


def _raw(database: BaseDatabaseWrapper) -> "psycopg.Connection[Any]":
    return cast("psycopg.Connection[Any]", database.connection)


def _run_on(
    database: BaseDatabaseWrapper, package: str, name: str, parameters: Mapping[str, object], *, prepare: bool = False
) -> list[Any]:
    getattr(_thread, "before_each", _nothing)()
    database.ensure_connection()
    # Django's own cursors write the values into the text, and cannot prepare it.
    with database.wrap_database_errors, psycopg.Cursor(_raw(database), row_factory=namedtuple_row) as cursor:
        cursor.execute(_load(package, name), parameters, prepare=prepare, binary=True)
        return cursor.fetchall() if cursor.description else []


def _nothing() -> None:
    pass


def bigints(numbers: Iterable[int]) -> str:
    """Return many numbers as the text of an array parameter: psycopg takes four times as long for a list."""
    return "{" + ",".join(map(str, numbers)) + "}"
