"""PostgreSQL without Django's part in it, and statements that may take their time."""

from collections.abc import Callable, Mapping
from typing import Any

import psycopg
from django.db import connection, transaction


def connect() -> psycopg.Connection[Any]:
    """Return a connection of psycopg's own, with autocommit, to the database of Django's."""
    return psycopg.connect(**parameters(), autocommit=True)


def parameters() -> dict[str, Any]:
    """Return the parameters of Django's connection, without what makes psycopg serve Django."""
    of_django = ("context", "cursor_factory")
    return {key: value for key, value in connection.get_connection_params().items() if key not in of_django}


def run_at_length(statements: str) -> None:
    """Execute statements without the time limit of Weir's settings."""
    with connection.cursor() as cursor:
        cursor.execute("SET statement_timeout = 0")
        cursor.execute(statements)
        cursor.execute("RESET statement_timeout")


def explain(text: str, parameters: Mapping[str, object], before: Callable[[], object] = lambda: None) -> str:
    """Return the plan of a statement that is executed, after `before`, in a transaction that is rolled back."""
    connection.ensure_connection()
    with transaction.atomic():
        before()
        with connection.connection.cursor() as cursor:
            cursor.execute("SET LOCAL statement_timeout = 0")
            rows = cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS, COSTS OFF) {text}", parameters).fetchall()
        transaction.set_rollback(True)
    return "\n".join(row[0] for row in rows)
