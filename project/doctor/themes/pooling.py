"""A pooler between the processes and PostgreSQL: whether Weir is told of it, and which settings its sessions lack."""

from contextlib import suppress
from typing import Final, NamedTuple

from django.db import Error, connection

from project.doctor.findings import Verdict, good, wrong
from weir.conf import settings as weir_settings
from weir.postgres import sessions
from weir.postgres.statements import Statement

GIVEN_UP_AFTER_MS: Final = 500


class ConnectionLimits(NamedTuple):
    """The limits and formats of a session, and the id of the PostgreSQL process that serves it."""

    pid: int
    statement_timeout: str
    idle_timeout: str
    isolation: str
    compiles: bool
    interval_style: str
    date_style: str
    float_digits: int
    array_nulls: bool


LIMITS = Statement("limits", row=ConnectionLimits, commits=False)


def pooling(limits: ConnectionLimits, *, changes_session: bool, is_known: bool) -> Verdict:
    """Judge whether a pooler is between the processes and PostgreSQL, and whether its sessions have their settings."""
    if changes_session and not is_known:
        return wrong(
            "A pooler gives each transaction another session of PostgreSQL's, and Weir does not know: set "
            "WEIR_TRANSACTION_POOLING=true, or have the pooler pool sessions."
        )
    if not is_known:
        return good("Each connection has a session of its own.")
    missing = [
        f"{name} = '{value}'"
        for name, value, is_there in (
            ("statement_timeout", "60s", limits.statement_timeout != "0"),
            ("idle_in_transaction_session_timeout", "60s", limits.idle_timeout != "0"),
            ("default_transaction_isolation", "read committed", limits.isolation == "read committed"),
            ("jit", "off", not limits.compiles),
            ("intervalstyle", "postgres", limits.interval_style == "postgres"),
            ("datestyle", "ISO", limits.date_style.startswith("ISO")),
            ("extra_float_digits", "1", limits.float_digits > 0),
            ("array_nulls", "on", limits.array_nulls),
        )
        if not is_there
    ]
    if missing:
        return wrong(
            "A pooler of transactions keeps no settings of sessions, so the role must have them: "
            f"ALTER ROLE ... SET {'; ALTER ROLE ... SET '.join(missing)}."
        )
    return good("A pooler of transactions is known, and the role has its settings.")


def ask() -> Verdict:
    """Ask whether the connection gets another session while a second connection has a transaction open."""
    limits = LIMITS()[0]
    other = sessions.another(connection)
    try:
        with other.cursor() as cursor:
            cursor.execute("BEGIN")
            # If a pooler has only one session, all processes wait for it until PostgreSQL ends this transaction.
            cursor.execute(f"SET LOCAL idle_in_transaction_session_timeout = '{GIVEN_UP_AFTER_MS}ms'")
            again = LIMITS()[0]
            with suppress(Error):  # PostgreSQL may have ended the session
                cursor.execute("ROLLBACK")
    finally:
        other.close()
    return pooling(limits, changes_session=again.pid != limits.pid, is_known=weir_settings.WEIR_TRANSACTION_POOLING)
