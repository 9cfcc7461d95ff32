"""PostgreSQL without Django's part in it, and statements that may take their time."""

from typing import Any

import psycopg
from django.db import connection


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
