"""Several databases on one Redis: each has keys of its own, even if one is a copy of the other."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
import redis
from django.db import OperationalError, connection
from pytest_django import Settings
from redis.crc import key_slot

from tests.integration.notifications.unread import (
    MARKS,
    assert_exact,
    assert_kept,
    reconciled,
    unread_rows,
    with_deltas,
)
from tests.set_up import needs_own_sessions
from weir.notifications import counters, flush, inbox
from weir.notifications.models import Doubt, Installation
from weir.postgres import statements
from weir.postgres.statements import Statement
from weir.redis_link import keys
from weir.workers.recovery import witness

pytestmark = [*MARKS, pytest.mark.usefixtures("looks_at_once")]
COPY = "weir_copy"
USERS = range(5)


@contextmanager
def on_database(name: str) -> Iterator[None]:
    """Make this process work on another database of the same server."""
    before = connection.settings_dict["NAME"]
    for place in (name, before):
        connection.close()
        connection.settings_dict["NAME"] = place
        if place == name:
            try:
                yield
            except BaseException:
                connection.close()
                connection.settings_dict["NAME"] = before
                raise


@pytest.fixture
def copy() -> Iterator[str]:
    """Return the name of a copy of the database, with all its rows, as a restored dump has."""
    parameters = {**connection.get_connection_params(), "dbname": "postgres", "cursor_factory": psycopg.Cursor}
    name = connection.settings_dict["NAME"]
    connection.close()
    with psycopg.connect(**parameters, autocommit=True) as other:
        other.execute(f"DROP DATABASE IF EXISTS {COPY}")
        other.execute(f"CREATE DATABASE {COPY} TEMPLATE {name} STRATEGY wal_log")
        yield COPY
        connection.close()
        other.execute(f"DROP DATABASE {COPY} WITH (FORCE)")


@pytest.fixture(autouse=True)
def _names_of_databases(valkey: redis.Redis) -> Iterator[None]:  # noqa: ARG001  comes first, as it asks
    """Make this process forget all names before and after, because all copies have the same name."""
    keys.forget()
    yield
    keys.forget()


@needs_own_sessions
def test_a_copy_of_a_database_and_its_original_take_nothing_from_each_other(copy: str) -> None:
    """On one Redis, with the same prefix: changes, flushes and passes of both, one after the other."""
    inbox.notify_many([1, 2], "news", "Hello")
    with on_database(copy):
        reconciled()
        inbox.notify_many([1, 3, 3], "news", "Hello")
        assert with_deltas(USERS) == {1, 3}
    assert with_deltas(USERS) == {1, 2}
    assert flush.flush_sealed().users == 2
    inbox.mark_all_read(2)
    with on_database(copy):
        assert_kept()
        assert flush.flush_sealed().users == 2
        assert reconciled().repaired.first == {}
        assert inbox.unread_counts([1, 2, 3]) == unread_rows(1, 2, 3) == {1: 1, 2: 0, 3: 1}
        assert_exact()
    assert reconciled().repaired.first == {}
    assert inbox.unread_counts([1, 2, 3]) == unread_rows(1, 2, 3) == {1: 1, 2: 0, 3: 0}
    assert_exact()


@needs_own_sessions
def test_a_copy_counts_rows_until_it_trusts_keys_of_its_own(copy: str) -> None:
    """The original's incarnation, which the copy's rows trust, is not that of the copy's keys."""
    assert reconciled().trusted
    with on_database(copy):
        inbox.notify(1, "news", "Hello")
        assert inbox.unread_count(1) == 1
        assert reconciled().trusted
        assert_exact()


def test_another_prefix_has_other_keys(settings: Settings, valkey: redis.Redis) -> None:
    """For copies that cannot be told apart, such as a snapshot of the server's disk."""
    inbox.notify(1, "news", "Hello")
    settings.WEIR_REDIS_PREFIX = "staging"
    counters.open_epoch(0)
    assert with_deltas(USERS) == set()
    counters.add({2: 1})
    assert with_deltas(USERS) == {2}
    assert {key.partition(b":")[0] for key in valkey.scan_iter()} == {b"{weir", b"{staging"}


def test_all_keys_are_of_one_slot(valkey: redis.Redis) -> None:
    """A cluster requires that."""
    inbox.notify(1, "news", "Hello")
    flush.flush_sealed()
    inbox.notify(1, "news", "Hello")
    assert counters.seal()
    inbox.notify(1, "news", "Hello")
    witness.remember(1)
    assert {re.sub(r":[0-7]$", "", key.decode()) for key in valkey.scan_iter()} == set(keys.keys())
    assert len({key_slot(key) for key in valkey.scan_iter()}) == 1


def test_the_name_is_asked_for_once_and_by_an_ordinary_role(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even without the table's row, which Django's own flush between tests deletes, there is a name."""
    asked: list[str] = []
    execute = statements.execute

    def noted(statement: Statement[Any], *how: Any) -> Any:
        asked.append(statement.name)
        return execute(statement, *how)

    monkeypatch.setattr(statements, "execute", noted)
    with connection.cursor() as cursor:
        cursor.execute("CREATE ROLE ordinary")
        cursor.execute("GRANT SELECT ON weir_notifications_installation TO ordinary")
        cursor.execute("SET ROLE ordinary")
        try:
            as_ordinary = keys.keys()
        finally:
            cursor.execute("RESET ROLE")
            cursor.execute("DROP OWNED BY ordinary")
            cursor.execute("DROP ROLE ordinary")
    assert keys.keys() == as_ordinary
    assert asked == ["identity_of_installation"]
    name = Installation.objects.get()
    Installation.objects.all().delete()
    keys.forget()
    assert keys.keys() != as_ordinary
    name.save()


def test_a_change_raises_nothing_where_postgresql_does_not_tell_the_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its connection has died since the COMMIT, and the process has sent no change before."""
    execute = statements.execute

    def refused(statement: Statement[Any], *how: Any) -> Any:
        if statement.name == "identity_of_installation":
            raise OperationalError("the connection is closed")
        return execute(statement, *how)

    with monkeypatch.context() as patched:
        patched.setattr(statements, "execute", refused)
        inbox.notify(1, "news", "Hello")
        assert inbox.unread_count(1) == 1
    assert set(Doubt.objects.values_list("pk", flat=True)) == {1}
    assert reconciled().repaired.first == {1: 1}
    assert_exact()
