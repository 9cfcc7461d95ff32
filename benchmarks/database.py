"""PostgreSQL without Django in between, and statements without a time limit."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from django.db import connection, transaction

GATE: dict[str, object] = {"known_generation": 0, "clock": None}  # of a database that never forgot
INDEXES = """
    SELECT indexrelid::regclass::text, pg_get_indexdef(indexrelid) FROM pg_index
    WHERE indrelid = %s::regclass AND NOT indisunique
"""
SET = "SELECT set_config(name, value, false) FROM unnest(%s::text[], %s::text[]) AS given (name, value)"
BUILT = "SET LOCAL maintenance_work_mem = '1GB'"


def connect() -> psycopg.Connection[Any]:
    """Return a plain psycopg connection, with autocommit, to Django's database."""
    return psycopg.connect(**parameters(), autocommit=True)


def parameters() -> dict[str, Any]:
    """Return the parameters of Django's connection, without those that adapt psycopg to Django."""
    of_django = ("context", "cursor_factory")
    return {key: value for key, value in connection.get_connection_params().items() if key not in of_django}


def run_at_length(statements: str) -> None:
    """Execute statements without the time limit of Weir's settings."""
    with set_for_block(statement_timeout="0"), connection.cursor() as cursor:
        cursor.execute(statements)


@contextmanager
def set_for_block(**settings: str) -> Iterator[None]:
    """Set these settings of the session; the old ones are restored afterwards, also after an error."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT name, current_setting(name) FROM unnest(%s::text[]) AS name", [list(settings)])
        before = dict(cursor.fetchall())
        cursor.execute(SET, [list(settings), list(settings.values())])
        try:
            yield
        finally:
            cursor.execute(SET, [list(before), list(before.values())])


def explain(text: str, parameters: dict[str, object], before: Callable[[], object] = lambda: None) -> str:
    """Return the plan of a statement that is executed, after `before`, in a transaction that is rolled back.

    It gets the parameters that the gate expects.
    """
    connection.ensure_connection()
    with transaction.atomic():
        before()
        with connection.connection.cursor() as cursor:
            cursor.execute("SET LOCAL statement_timeout = 0")
            rows = cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS, COSTS OFF) {text}", GATE | parameters).fetchall()
        transaction.set_rollback(True)
    return "\n".join(row[0] for row in rows)


@contextmanager
def hastily() -> Iterator[None]:
    """Do not wait for the disk at commits, and check no foreign keys: what is written is right by itself."""
    with set_for_block(synchronous_commit="off", session_replication_role="replica"):
        yield


@contextmanager
def without_indexes(table: str) -> Iterator[None]:
    """Drop the indexes of the table for the block: building one costs a fraction of millions of insertions."""
    with connection.cursor() as cursor:
        cursor.execute(INDEXES, [table])
        names, definitions = zip(*cursor.fetchall(), strict=True)
    run_at_length(f"DROP INDEX {', '.join(names)}")
    try:
        yield
    finally:
        run_at_length("; ".join((BUILT, *definitions)))
