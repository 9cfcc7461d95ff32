"""Time limits of statements, in place of WEIR_STATEMENT_TIMEOUT, and of their waits for locks."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection, transaction


@contextmanager
def reading(seconds: float) -> Iterator[None]:
    """Run the block in a transaction that only reads, and in which no statement takes longer than `seconds`.

    Each statement sees what was committed when the statement began. Raises Django's OperationalError for a statement
    that took longer, and InternalError for a statement that writes. Must not be called in another transaction, because
    it would change that transaction's limits.
    """
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute(
            "SELECT set_config('statement_timeout', %s, true), set_config('transaction_read_only', 'on', true)",
            [f"{seconds * 1000:.0f}ms"],
        )
        yield


@contextmanager
def not_waiting_for_locks(seconds: float) -> Iterator[None]:
    """Run the block in a transaction in which no statement waits for a lock for longer than `seconds`.

    Raises Django's OperationalError, whose cause is psycopg's LockNotAvailable, for a statement that waited longer.
    Must not be called in another transaction.
    """
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute("SELECT set_config('lock_timeout', %s, true)", [f"{seconds * 1000:.0f}ms"])
        yield


def without_limit() -> None:
    """Remove the time limit of the statements in the rest of the caller's transaction; outside of one, do nothing.

    For work that cannot be divided: if the work took longer than the limit, it could never be done.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config('statement_timeout', '0', true)")
