"""Sessions with PostgreSQL: what holds in each, also behind a pooler, and whatever the database says otherwise."""

import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.backends.base.base import BaseDatabaseWrapper

from weir.postgres import sessions
from weir.ratelimit import site_settings
from weir.ratelimit.models import Site

pytestmark = pytest.mark.django_db(transaction=True)

REFUSED = b"SFATAL\0C08P01\0Munsupported startup parameter: options\0\0"


class Pooler(socketserver.BaseRequestHandler):
    """PgBouncer, as far as it concerns how a session begins: it takes no start-up parameter `options`."""

    def handle(self) -> None:
        begin = self.request.recv(4096)
        if b"\0options\0" in begin:
            self.request.sendall(b"E" + (len(REFUSED) + 4).to_bytes(4, "big") + REFUSED)
            return
        with socket.socket(socket.AF_UNIX) as server:
            server.connect(f"{self.server.folder}/.s.PGSQL.5432")  # type: ignore[attr-defined]
            server.sendall(begin)
            back = threading.Thread(target=_pass_on, args=(server, self.request))
            back.start()
            _pass_on(self.request, server)
            back.join()


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    while some := source.recv(65536):
        target.sendall(some)
    target.shutdown(socket.SHUT_WR)


@pytest.fixture
def pooled() -> Iterator[BaseDatabaseWrapper]:
    """Return a connection of Django's that goes through the pooler, over TCP."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Pooler) as server:
        server.daemon_threads = True
        server.folder = connection.settings_dict["HOST"]  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        through = connection.copy()
        options = {**connection.settings_dict["OPTIONS"], "sslmode": "disable", "gssencmode": "disable"}
        options.pop("pool", None)  # Django has one for all connections of a name, and this one goes elsewhere
        place = {"HOST": "127.0.0.1", "PORT": server.server_address[1], "OPTIONS": options}
        through.settings_dict = {**connection.settings_dict, **place}
        yield through
        through.close()
        server.shutdown()


def shown(by: BaseDatabaseWrapper, name: str) -> Any:
    with by.cursor() as cursor:
        cursor.execute(f"SHOW {name}")
        return cursor.fetchone()[0]


def test_time_limits_hold_behind_a_pooler(pooled: BaseDatabaseWrapper) -> None:
    """No start-up parameter is needed that a pooler refuses or drops."""
    assert shown(pooled, "statement_timeout") == "1min"
    assert shown(pooled, "idle_in_transaction_session_timeout") == "1min"


def test_this_side_gives_up_a_host_that_says_nothing(pooled: BaseDatabaseWrapper) -> None:
    """The kernel ends the connection after eight seconds, whether something was sent or is waited for."""
    pooled.ensure_connection()
    with socket.fromfd(pooled.connection.fileno(), socket.AF_INET, socket.SOCK_STREAM) as duplicate:
        tcp = socket.IPPROTO_TCP
        assert duplicate.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert duplicate.getsockopt(tcp, socket.TCP_USER_TIMEOUT) == 5_000
        names = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        assert [duplicate.getsockopt(tcp, name) for name in names] == [3, 1, 2]


@contextmanager
def database_says(name: str, value: str) -> Iterator[None]:
    """Make the database give new sessions another value of the setting."""
    database = connection.ops.quote_name(connection.settings_dict["NAME"])
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER DATABASE {database} SET {name} = '{value}'")
    connection.close()
    try:
        yield
    finally:
        connection.close()
        with connection.cursor() as again:
            again.execute(f"ALTER DATABASE {database} RESET {name}")
        connection.close()


def test_transactions_are_read_committed_whatever_the_database_says() -> None:
    """Single statements as well: reservations look again at what they waited for."""
    with database_says("default_transaction_isolation", "repeatable read"):
        assert shown(connection, "transaction_isolation") == "read committed"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("intervalstyle", style) for style in ("sql_standard", "postgres_verbose", "iso_8601")),
        *(("datestyle", style) for style in ("SQL, DMY", "Postgres, MDY", "German", "ISO, YMD")),
        ("extra_float_digits", "-15"),
        ("array_nulls", "off"),
        ("bytea_output", "escape"),
        ("timezone", "America/St_Johns"),
    ],
)
def test_values_come_and_go_as_they_are_whatever_the_database_says(name: str, value: str) -> None:
    """PostgreSQL writes them as texts, in forms that settings choose and drivers may not know."""
    site_settings.set_rate("site.test", "1/90s")
    with database_says(name, value):
        site_settings.set_rate("site.test", "4/s")
        site = Site.objects.get()
        assert (site.interval, site.created_at.tzinfo) == (timedelta(seconds=0.25), UTC)
        with connection.cursor() as cursor:
            given: list[Any] = [
                datetime(2026, 2, 3, 4, 5, 6, 7, tzinfo=UTC),
                1764000000.123456,
                [1, None],
                timedelta(days=-1.5),
            ]
            cursor.execute("SELECT %s::timestamptz, %s::float8, %s::bigint[], %s::interval, date '2026-02-03'", given)
            assert list(cursor.fetchone()) == [*given, date(2026, 2, 3)]
            cursor.execute("SELECT '{1,NULL}'::bigint[], '\\x00ff'::bytea")
            numbers, content = cursor.fetchone()
            assert (numbers, bytes(content)) == ([1, None], b"\0\xff")


def test_no_statement_is_compiled() -> None:
    """That takes seconds where PostgreSQL can: it does so of its own accord for what it thinks costly."""
    with connection.cursor() as cursor:
        cursor.execute("SHOW jit")
        assert cursor.fetchone() == ("off",)


def test_a_second_connection_waits_for_none_of_a_pool() -> None:
    """Where all who have the last ones wait for a second, none comes."""
    pooled: Any = connection.copy()
    pooled.settings_dict["OPTIONS"]["pool"] = {"min_size": 1, "max_size": 1, "timeout": 1}
    try:
        with pooled.cursor() as first, closing(sessions.another(pooled)) as other, other.cursor() as second:
            pids = [cursor.execute("SELECT pg_backend_pid()").fetchone() for cursor in (first, second)]
        assert len(set(pids)) == 2
    finally:
        pooled.close()
        pooled.close_pool()
