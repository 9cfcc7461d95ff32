"""PostgreSQL's clock as one session reads it, standing still until it is moved: a slow machine passes no time.

Functions of a schema that the session searches before pg_catalog stand in for PostgreSQL's. Defaults of columns go by
the real clock: they were bound when the tables were made.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

import pytest
from django.db import connection

from weir.postgres import statements

READ_BY = ("clock_timestamp", "statement_timestamp", "transaction_timestamp", "now")
FUNCTION = """
CREATE FUNCTION still.{name}() RETURNS timestamptz LANGUAGE sql STABLE
AS $$ SELECT current_setting('still.now')::timestamptz $$
"""


class StillClock:
    """Tells the time in seconds since it was stopped."""

    def __init__(self, stopped_at: datetime) -> None:
        self.stopped_at = stopped_at
        self.move_to(0.0)

    def move_to(self, at: float) -> None:
        """Set the time to so many seconds after the beginning."""
        now = self.stopped_at + timedelta(seconds=at)
        with connection.cursor() as cursor:
            cursor.execute("SELECT set_config('still.now', %s, false)", [now.isoformat()])
        self.at = at

    def offset(self, moment: datetime) -> float:
        """Return when a stored time is, in seconds from the beginning."""
        return (moment - self.stopped_at).total_seconds()


@contextmanager
def stopped() -> Iterator[StillClock]:
    """Stop the clock for this thread's connection; it goes on at the end."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        [now] = cursor.fetchone()
        cursor.execute("DROP SCHEMA IF EXISTS still CASCADE; CREATE SCHEMA still")
        for name in READ_BY:
            cursor.execute(FUNCTION.format(name=name))
        clock = StillClock(now)
        cursor.execute("SET search_path = still, pg_catalog, public")
        try:
            with (
                pytest.MonkeyPatch.context() as patched
            ):  # nobody takes that for a step (weir/postgres/timeline/gate.py)
                patched.setattr(statements, "_gate", [statements._gate[0]._replace(clock=lambda: None)])
                yield clock
        finally:
            cursor.execute("RESET search_path; DROP SCHEMA still CASCADE")
