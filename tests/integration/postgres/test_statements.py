"""Rows of statements have the class that their caller declares, if the statement returns its columns."""

import os
import signal
import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, NamedTuple

import psycopg
import pytest
from django.db import DatabaseError

from tests.integration.conftest import Eventually, WaitersOf
from tests.rooms import statement
from weir.postgres import statements
from weir.postgres.statements import Statement
from weir.ratelimit import slots
from weir.ratelimit.sites import create_sites

pytestmark = pytest.mark.django_db(transaction=True)


class NamedSite(NamedTuple):
    """What named_sites.sql returns."""

    id: int
    name: str
    takes_turns: bool


class Shorter(NamedTuple):
    """Lacks a column."""

    id: int


class Renamed(NamedTuple):
    """Names a column as it is called no more."""

    id: int
    host: str
    takes_turns: bool


class Turned(NamedTuple):
    """Has the columns in another order."""

    name: str
    id: int
    takes_turns: bool


UNDECLARED: Statement[tuple[object, ...]] = statement("weir.ratelimit", "named_sites")


def named(row: type[Any]) -> list[Any]:
    return statement("weir.ratelimit", "named_sites", row=row)(names=["a.test"])


def test_rows_are_of_the_declared_class() -> None:
    """A caller that declares the columns gets instances of its class."""
    site = create_sites(["a.test"])["a.test"]
    [row] = named(NamedSite)
    assert isinstance(row, NamedSite)
    assert row == (site.id, "a.test", False)


def test_rows_that_nobody_declares_can_only_be_counted() -> None:
    """For mypy their values are objects, and have no names. It complains of a comment that it does not need."""
    create_sites(["a.test"])
    [row] = UNDECLARED(names=["a.test"])
    assert type(row) is tuple
    with pytest.raises(AttributeError):
        _ = row.name  # type: ignore[attr-defined]
    _number: int = row[0]  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("row", "difference"),
    [
        (Shorter, r"other columns than Shorter: without \[\], and with \['name', 'takes_turns'\]"),
        (Renamed, r"other columns than Renamed: without \['host'\], and with \['name'\]"),
        (Turned, "the columns of Turned in another order, or twice: id, name, takes_turns"),
    ],
)
def test_other_columns_fail_at_the_first_execution(row: type[Any], difference: str) -> None:
    """A rename in the SQL alone is no silent None: the error names statement, class and columns, also without rows."""
    with pytest.raises(statements.WrongColumns, match=f"ratelimit/sql/named_sites.sql returns {difference}"):
        named(row)


def test_a_statement_without_columns_has_no_rows() -> None:
    """What returns nothing cannot be declared to return something."""
    known = {"key": "ada 192.0.2.1", "known_for": timedelta(days=1)}
    assert statement("project.logins", "remember")(**known) == []
    with pytest.raises(statements.WrongColumns, match=r"without \['id'\], and with \[\]"):
        statement("project.logins", "remember", row=Shorter)(**known)


@pytest.mark.django_db(transaction=False)
def test_one_that_fails_in_a_test_case_leaves_the_rest_of_the_test() -> None:
    """Outside of tests it rolls back itself alone, too: as when the gate refuses it, and it is tried once more."""
    create_sites(["a.test"])
    with pytest.raises(DatabaseError):
        UNDECLARED(names=7)
    assert named(NamedSite)


def test_the_connection_goes_on_after_wrong_columns() -> None:
    """The error of one caller is not the next one's."""
    with pytest.raises(statements.WrongColumns), statements.own_transaction() as execute:
        execute(statement("weir.ratelimit", "named_sites", row=Turned), names=[])
    assert named(NamedSite) == []


class Interrupted(Exception):
    """As Celery's SoftTimeLimitExceeded, which its signal handler raises wherever the task is."""


@pytest.fixture
def interrupting_signal() -> Iterator[signal.Signals]:
    """Return a signal that interrupts this process."""

    def interrupt(*_signal: object) -> None:
        raise Interrupted

    handler = signal.signal(signal.SIGUSR1, interrupt)
    yield signal.SIGUSR1
    signal.signal(signal.SIGUSR1, handler)


def test_a_connection_takes_statements_after_one_that_was_interrupted(
    interrupting_signal: signal.Signals,
    other_connection: psycopg.Connection[object],
    waiters: WaitersOf,
    eventually: Eventually,
) -> None:
    """What is given back, or noted, because of the interruption needs the connection at once."""
    create_sites(["a.test"])
    other_connection.execute("SELECT id FROM weir_ratelimit_site FOR UPDATE")

    def interrupt() -> None:
        eventually(lambda: waiters(other_connection), "the reservation to wait")
        os.kill(os.getpid(), interrupting_signal)

    interrupter = threading.Thread(target=interrupt)
    interrupter.start()
    with pytest.raises(Interrupted):
        slots.reserve("a.test")
    interrupter.join()
    other_connection.rollback()
    assert slots.estimate("a.test") < 2  # the server may have reserved one start, of the default rate
