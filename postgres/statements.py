"""Runs the statements that stand in `.sql` files: one statement a file, one round trip a call."""

from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, cast

import psycopg
from django.db import DEFAULT_DB_ALIAS, connections
from django.db.transaction import TransactionManagementError
from psycopg.rows import namedtuple_row


@cache
def _load(package: str, name: str) -> str:
    return files(package).joinpath("sql", f"{name}.sql").read_text(encoding="utf-8")


def refuse_transaction(what: str) -> None:
    """Raise TransactionManagementError inside somebody's transaction, which says what must not be in it."""
    if connections[DEFAULT_DB_ALIAS].in_atomic_block:
        raise TransactionManagementError(
            f"{what} must commit by itself: call it outside transaction.atomic(), "
            "for example in transaction.on_commit()."
        )


def run(package: str, name: str, parameters: Mapping[str, object], *, prepare: bool = False) -> list[Any]:
    """Execute `<package>/sql/<name>.sql` in a transaction of its own.

    `prepare` is for statements that touch a few rows very often: they are planned once a connection. Those that work
    on sets are planned for the sizes they meet.

    The statement has committed when this returns. Raises TransactionManagementError inside somebody else's
    transaction: what it reserves or claims must be true before anything is done with it, and must not be undone
    by a roll-back afterwards. Database errors are Django's (`django.db.Error`).
    """
    refuse_transaction(f"{package}/sql/{name}.sql")
    return run_within(package, name, parameters, prepare=prepare)


def run_within(package: str, name: str, parameters: Mapping[str, object], *, prepare: bool = False) -> list[Any]:
    """Execute the statement like `run`, but as part of the caller's transaction, if there is one."""
    database = connections[DEFAULT_DB_ALIAS]
    database.ensure_connection()
    # Django's own cursors put the values into the text and cannot prepare it.
    raw = cast("psycopg.Connection[Any]", database.connection)
    with database.wrap_database_errors, psycopg.Cursor(raw, row_factory=namedtuple_row) as cursor:
        cursor.execute(_load(package, name), parameters, prepare=prepare, binary=True)
        return cursor.fetchall() if cursor.description else []


def bigints(numbers: Iterable[int]) -> str:
    """Return many numbers as the text of an array parameter: psycopg takes four times as long over a list."""
    return "{" + ",".join(map(str, numbers)) + "}"
