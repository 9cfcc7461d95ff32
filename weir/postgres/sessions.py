"""The settings of each session with PostgreSQL, which override those of the server, the role or a pooler.

A statement sets them after connecting, never the start-up parameter `options`: PgBouncer refuses that parameter, or
drops it silently. The user's own `DATABASE_URL?options=...` is passed on.

Behind a pooler that gives each transaction another session, a session does not keep settings. There the role must have
them (docs/how-to/use-a-pooler.md), and `doctor` checks whether it does.
"""

import time
from collections.abc import Mapping
from typing import Any, Final
from weakref import WeakKeyDictionary

import psycopg
from django.db.backends.base.base import BaseDatabaseWrapper

from weir.conf import settings

# A host that dies sends nothing. Client and server both give a connection up after this time without a sign of life,
# or, if something was sent, after the same time without an acknowledgement. TCP takes whole seconds; Unix sockets need
# no such limits.
# A process that is silent for 8 s may be counted as lost (weir.workers.processes). So within that time, a process must
# notice that its connection is dead, and connect anew.
SILENCE_S: Final = 5
PROBE_AFTER_S, PROBE_EVERY_S = 3, 1
PROBES: Final = (SILENCE_S - PROBE_AFTER_S) // PROBE_EVERY_S
LONGEST_MS: Final = 2**31 - 1  # the longest time limit that PostgreSQL takes
PLANNED_FOR_S: Final = 30.0  # after this time, a session that stays open plans its prepared statements anew

# Parameters for libpq: the client's side of a connection.
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
    """Set the session's time limits, READ COMMITTED, the formats of values, and after what silence the server ends it.

    For a new connection in autocommit mode; one round trip. Does nothing behind a pooler in transaction mode. Raises
    psycopg.Error.
    """
    if settings.WEIR_TRANSACTION_POOLING:
        return
    limit = f"{min(settings.WEIR_STATEMENT_TIMEOUT * 1000, LONGEST_MS):.0f}ms"
    values = {
        # A statement that hangs must not block a worker for ever: threads cannot be interrupted.
        "statement_timeout": limit,
        "idle_in_transaction_session_timeout": limit,
        # A reservation locks a row, and then reads it again. Under REPEATABLE READ, the second of two concurrent
        # reservations would fail.
        "default_transaction_isolation": "read committed",
        # Debian's PostgreSQL compiles statements by default. Compiling one of Weir's takes seconds, running it
        # milliseconds.
        "jit": "off",
        # Values are sent as text. Drivers can read times in these formats, and no number is rounded. The order of the
        # parts of a date stays that of the role.
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
    """Return the session's present values of all settings that `configure` sets. Raises psycopg.Error."""
    with psycopg.Cursor(session) as cursor:
        [values] = cursor.execute(_SHOW, prepare=False).fetchall()
    return dict(zip(_NAMES, values, strict=True))


def set_values(session: psycopg.Connection[Any], values: Mapping[str, str]) -> None:
    """Set the session's settings to these values, one for each setting that `configure` sets. Raises psycopg.Error."""
    with psycopg.Cursor(session) as cursor:
        cursor.execute(_SET, values, prepare=False)


def plan_anew(session: psycopg.Connection[Any]) -> None:
    """Let PostgreSQL plan the session's prepared statements anew, if this was last done PLANNED_FOR_S ago or earlier.

    PostgreSQL keeps a plan until statistics are gathered, however much the table has grown since. To be called before a
    prepared statement is executed; takes one round trip now and then. Raises psycopg.Error.
    """
    now = time.monotonic()
    if now >= _planned_at.setdefault(session, now) + PLANNED_FOR_S:
        with psycopg.Cursor(session) as cursor:
            cursor.execute("DISCARD PLANS", prepare=False)
        _planned_at[session] = now


def another(database: BaseDatabaseWrapper) -> BaseDatabaseWrapper:
    """Return a second connection to the same database, for a caller that has one already; the caller closes it.

    The connection is never taken from a pool: if all callers that hold the pool's last connections wait for a second
    one, no connection becomes free. Also, a session that returns to a pool keeps its locks.
    """
    copy = database.copy()
    copy.settings_dict["OPTIONS"].pop("pool", None)
    return copy


def leave(database: BaseDatabaseWrapper) -> None:
    """Close this thread's session, which may be broken, or connected to a server that only reads.

    The next use opens another session. If the session only returned to a pool, the pool would hand out this session
    again, or another one of the same age. So the pool opens all its sessions anew (from psycopg_pool 3.3 on).
    """
    session: Any = database.connection
    if session is not None:
        session.pgconn.finish()  # `close` alone may only give it back to the pool
        if drain := getattr(getattr(session, "_pool", None), "drain", None):
            drain()
    database.close()
