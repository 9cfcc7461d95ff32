"""GET /readyz: whether a web process can work, told within a second or so."""

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from django.db import InterfaceError, OperationalError, connection
from django.test import Client

from project import readiness
from project.readiness import AWAY, Readiness
from tests.set_up import needs_migrations, needs_own_sessions
from tests.waiting import wait_for

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget the answers of other tests."""
    monkeypatch.setattr(readiness, "_readiness", Readiness())


@pytest.fixture
def in_database(transactional_db: None) -> Iterator[Callable[[str, str], None]]:  # noqa: ARG001  asked for its effect
    """Return a function that sets a parameter for new sessions of this database; it is reset at the end."""
    name, changed = connection.settings_dict["NAME"], []

    def change(parameter: str, value: str) -> None:
        changed.append(parameter)
        with connection.cursor() as cursor:
            cursor.execute(f"ALTER DATABASE {name} SET {parameter} = {value}")

    yield change
    with connection.cursor() as cursor:
        cursor.execute("SET default_transaction_read_only = off")
        for parameter in changed:
            cursor.execute(f"ALTER DATABASE {name} RESET {parameter}")


def asked() -> tuple[int, str]:
    answer = Client().get("/readyz")
    return answer.status_code, answer.json()["reason"]


@needs_migrations
def test_a_process_that_can_work_is_ready() -> None:
    """Without a login."""
    assert asked() == (200, "")


def test_migrations_that_are_missing_are_waited_for_and_looked_for_no_more_once_applied(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A release migrates while the new processes start; later answers need not read all migrations."""
    looked, is_migrated = [], iter([False, True])

    def look() -> bool:
        looked.append(1)
        return next(is_migrated)

    monkeypatch.setattr(readiness, "_is_migrated", look)
    monkeypatch.setattr(readiness, "FRESH_S", 0.0)
    assert asked() == (503, "Migrations are not applied: run manage.py migrate.")
    assert asked() == asked() == (200, "")
    assert len(looked) == 2


@needs_migrations
def test_migrations_are_compared_with_the_table() -> None:
    """One that is not there counts."""
    assert readiness._is_migrated()
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM django_migrations WHERE app = 'weir_ops' RETURNING name")
        names = [name for (name,) in cursor.fetchall()]
        assert not readiness._is_migrated()
        cursor.executemany(
            "INSERT INTO django_migrations (app, name, applied) VALUES ('weir_ops', %s, now())",
            [(name,) for name in names],
        )


@needs_own_sessions
def test_a_server_that_takes_no_writes_is_refused(in_database: Callable[[str, str], None]) -> None:
    """As after a fail-over to a standby."""
    in_database("default_transaction_read_only", "on")
    assert asked() == (503, "PostgreSQL is read-only for this role.")


def test_a_standby_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which is read-only anyway; the sentence says what it is."""
    monkeypatch.setattr(readiness, "WRITES", lambda: [readiness.Writes(True, False)])
    assert asked() == (503, "PostgreSQL is a standby, which takes no writes.")


@pytest.mark.parametrize("error", [OperationalError, InterfaceError])
def test_a_database_that_is_away_is_told_at_once(error: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its error, which names hosts."""

    def refused(*_arguments: object, **_options: object) -> None:
        raise error("connection to server at 10.0.0.7 refused")

    monkeypatch.setattr(readiness, "BOUNDS", refused)
    assert asked() == (503, AWAY)


def test_a_check_that_fails_by_itself_is_told_and_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where no file can be opened for a while: the answer of that moment is not the last one."""
    errors = [OSError(24, "Too many open files")]

    def look() -> bool:
        if errors:
            raise errors.pop()
        return True

    monkeypatch.setattr(readiness, "_is_migrated", look)
    monkeypatch.setattr(readiness, "FRESH_S", 0.0)
    assert asked() == (503, "The check failed: the log has the error.")
    assert asked() == (200, "")


@needs_migrations
def test_a_database_that_hangs_is_told_after_a_second_to_all_who_ask(
    other_connection: psycopg.Connection[Any],
) -> None:
    """One thread asks it, whoever asks; and it is told again that it is there once it is."""
    other_connection.execute("LOCK TABLE django_migrations")
    began_at, answers = time.monotonic(), []
    threads = [threading.Thread(target=lambda: answers.append(asked())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert time.monotonic() - began_at < 5
    assert answers == [(503, AWAY)] * 8
    other_connection.rollback()
    give_up_at = time.monotonic() + 20
    while asked() != (200, ""):
        assert time.monotonic() < give_up_at
        time.sleep(0.1)


def test_an_answer_is_given_again_for_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many ask; and no session of PostgreSQL is kept for the next one."""
    looked: list[int] = []

    def look(_readiness: Readiness) -> str:
        connection.ensure_connection()
        looked.append(1)
        return ""

    monkeypatch.setattr(Readiness, "_look", look)
    asking = Readiness()
    assert [asking.reason() for _ in range(5)] == [""] * 5
    assert len(looked) == 1
    assert asking._threads.submit(lambda: connection.connection).result(10) is None
    monkeypatch.setattr(readiness, "FRESH_S", 0.0)
    asking.reason()
    assert len(looked) == 2


def test_a_check_that_hangs_holds_up_nobody_for_longer_than_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it does where the network swallows what is sent: PostgreSQL's own limit does not help there."""
    go_on = threading.Event()
    monkeypatch.setattr(Readiness, "_look", lambda _readiness: str(go_on.wait(30)))
    asking, began_at = Readiness(), time.monotonic()
    try:
        assert [asking.reason(), asking.reason()] == [AWAY] * 2
        assert 2 <= time.monotonic() - began_at < 10
    finally:
        go_on.set()


def test_a_statement_that_hangs_is_ended_by_the_server(other_connection: psycopg.Connection[Any]) -> None:
    """Though the lock stays: no session waits for it behind the answers."""
    other_connection.execute("LOCK TABLE django_migrations")
    asking = Readiness()
    assert asking.reason() == AWAY
    wait_for(lambda: asking._running is not None and asking._running.done(), 10, "the end of the check")
