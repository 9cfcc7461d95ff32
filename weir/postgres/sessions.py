"""The settings of each session with PostgreSQL, whatever the server, the role or a pooler says otherwise.

They are set by a statement after connecting, never by the start-up parameter `options`: PgBouncer refuses that, or
drops it in silence. `DATABASE_URL?options=...` is the user's own, and is handed on.

Behind a pooler that gives each transaction another session, settings are not kept: there the role must have them
(docs/how-to/use-a-pooler.md), and `doctor` checks whether it does.
"""

import time
from collections.abc import Mapping
from typing import Any, Final
from weakref import WeakKeyDictionary

import psycopg
from django.db.backends.base.base import BaseDatabaseWrapper

from weir.conf import settings

# A host that dies sends nothing. Both sides give a connection up after this time without a sign of life; if something
# was sent, after the same time without its receipt. TCP takes whole seconds; Unix sockets need none of it.
# Others may count a process as lost that is silent for 8 s (weir.workers.processes): so it must notice that its
# connection is dead, and connect anew, before that.
SILENCE_S: Final = 5
PROBE_AFTER_S, PROBE_EVERY_S = 3, 1
PROBES: Final = (SILENCE_S - PROBE_AFTER_S) // PROBE_EVERY_S
LONGEST_MS: Final = 2**31 - 1  # the longest time limit that PostgreSQL takes
PLANNED_FOR_S: Final = 30.0  # a session that stays open plans its statements anew, after this time

# For libpq, on this side.
CLIENT: Final[Mapping[str, int]] = {
    "keepalives": 1,
    "keepalives_idle": PROBE_AFTER_S,
    "keepalives_interval": PROBE_EVERY_S,
    "keepalives_count": PROBES,
    "tcp_user_timeout": SILENCE_S * 1000,
}
_planned_at: WeakKeyDictionary[psycopg.Connection[Any], float] = WeakKeyDictionary()  # of time.monotonic()
_NAMES: Final = (
    "statement_timeout",
    "idle_in_transaction_session_timeout",
    "default_transaction_isolation",
    "jit",
    "intervalstyle",
    "datestyle",
    "extra_float_digits",
    "array_nulls",
    "tcp_keepalives_idle",
    "tcp_keepalives_interval",
    "tcp_keepalives_count",
    "tcp_user_timeout",
)
_SET: Final = "SELECT " + ", ".join(f"set_config('{name}', %({name})s, false)" for name in _NAMES)
_SHOW: Final = "SELECT " + ", ".join(f"current_setting('{name}')" for name in _NAMES)


def configure(session: psycopg.Connection[Any]) -> None:
    """Set the session's time limits, READ COMMITTED, the forms of values, and when the server gives it up.

    For a new connection in autocommit mode; one round trip. Does nothing behind a pooler of transactions. Raises
    psycopg.Error.
    """
    if settings.WEIR_TRANSACTION_POOLING:
        return
    limit = f"{min(settings.WEIR_STATEMENT_TIMEOUT * 1000, LONGEST_MS):.0f}ms"
    values = {
        # A statement that hangs must not hold a worker for good: threads cannot be interrupted.
        "statement_timeout": limit,
        "idle_in_transaction_session_timeout": limit,
        # A reservation locks first, and then looks again; under REPEATABLE READ the second of two would fail.
        "default_transaction_isolation": "read committed",
        # Compiling a statement of ours takes seconds, running it milliseconds; Debian's PostgreSQL compiles by default.
        "jit": "off",
        # Values travel as texts: in these forms drivers read times, and nothing is rounded. The order of a date's parts
        # stays the role's.
        "intervalstyle": "postgres",
        "datestyle": "ISO",
        "extra_float_digits": "1",
        "array_nulls": "on",
        "tcp_keepalives_idle": str(PROBE_AFTER_S),
        "tcp_keepalives_interval": str(PROBE_EVERY_S),
        "tcp_keepalives_count": str(PROBES),
        "tcp_user_timeout": str(SILENCE_S * 1000),
    }
    set_values(session, values)


def values_of(session: psycopg.Connection[Any]) -> Mapping[str, str]:
    """Return the values that the session has now, of all settings that `configure` sets. Raises psycopg.Error."""
    with psycopg.Cursor(session) as cursor:
        [values] = cursor.execute(_SHOW, prepare=False).fetchall()
    return dict(zip(_NAMES, values, strict=True))


def set_values(session: psycopg.Connection[Any], values: Mapping[str, str]) -> None:
    """Set these values, one for each setting that `configure` sets, for the session. Raises psycopg.Error."""
    with psycopg.Cursor(session) as cursor:
        cursor.execute(_SET, values, prepare=False)


def plan_anew(session: psycopg.Connection[Any]) -> None:
    """Let PostgreSQL plan the session's prepared statements anew, if it did not do so for PLANNED_FOR_S.

    PostgreSQL keeps a plan until statistics are gathered, however much the table has grown since. To be called before
    such a statement is executed; takes one round trip now and then. Raises psycopg.Error.
    """
    now = time.monotonic()
    if now >= _planned_at.setdefault(session, now) + PLANNED_FOR_S:
        with psycopg.Cursor(session) as cursor:
            cursor.execute("DISCARD PLANS", prepare=False)
        _planned_at[session] = now


def another(database: BaseDatabaseWrapper) -> BaseDatabaseWrapper:
    """Return a second connection to the same database, for a caller that has one already; the caller closes it.

    It is never taken from a pool: if all callers that hold the pool's last connections wait for a second one, none
    becomes free. And a session that goes back to a pool keeps its locks.
    """
    copy = database.copy()
    copy.settings_dict["OPTIONS"].pop("pool", None)
    return copy


def leave(database: BaseDatabaseWrapper) -> None:
    """Close this thread's session, which may be broken, or connected to a server that only reads.

    The next use opens another. If the session only went back to a pool, the pool would hand it out again, or another
    one as old. So from psycopg_pool 3.3 on the pool opens all of them anew.
    """
    session: Any = database.connection
    if session is not None:
        session.pgconn.finish()  # `close` alone may only give it back to the pool
        if drain := getattr(getattr(session, "_pool", None), "drain", None):
            drain()
    database.close()
