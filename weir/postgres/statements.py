"""Weir's own SQL statements. A `.sql` file has the text; the head of a module declares the statement; code calls it.

    CLAIM = Statement("claim", row=ClaimedFetch, commits=True)
    rows = CLAIM(slots=[1, 2])

The declaration says what the statement returns, and whether it is committed when the call returns. A call is one round
trip. Each execution compares the returned columns with the declared ones. So if a column is renamed, added or removed
in the SQL only, the first test that executes the statement fails.
"""

import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from copy import copy
from functools import cached_property
from operator import itemgetter
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar, cast, overload

import psycopg
from django.db import DEFAULT_DB_ALIAS, OperationalError, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg.pq import TransactionStatus
from psycopg.rows import RowMaker, no_result

from weir.conf.rooms import folder_of
from weir.postgres import own_commits, sessions

Row = TypeVar("Row")
Returned = TypeVar("Returned")

# The parameters of a statement that asks the gate (weir/postgres/timeline/gate.py).
_KNOWN_GENERATION: Final = "%(known_generation)s"
_CLOCK: Final = "%(clock)s"
# Matches quoted text, or what PostgreSQL ignores: comments, line breaks and indentation.
_QUOTED_OR_BLANK: Final = re.compile(r"""('[^']*'|"[^"]*")|\s*(?:--[^\n]*\s*|\n\s*)+""")
_LATE: Final = "57W02"  # the SQLSTATE of the gate's error if PostgreSQL's clock does not say what was expected

_named_types: dict[str, Callable[[], str]] = {}
_thread = threading.local()


class WrongColumns(TypeError):
    """A statement returned other columns than its declaration names."""


class Statement(Generic[Returned]):
    """The statement in `<name>.sql`, in the folder `sql/` of the caller's package, or of the nearest package above it.

    `row` is a NamedTuple with the names of all columns, in their order. `returns` is the type of the values if there is
    only one column. If neither is given, rows are tuples of objects. Code can only count them: mypy refuses to use
    their values.

    A statement that `commits` runs in a transaction of its own, and is committed when the call returns. A call inside
    another transaction raises TransactionManagementError: a reservation or a claim must be committed before it is used,
    and must not be rolled back afterwards. Other statements run in the caller's transaction, if one is open.

    `prepare` is for statements that touch a few rows very often ("prepared plan" in docs/explanation/sql.md).

    The file is read when the statement is declared. So a process that has run out of file descriptors can still
    execute the statements that its modules declare.
    """

    @overload
    def __init__(
        self: "Statement[Row]", name: str, *, row: type[Row], commits: bool, prepare: bool = False
    ) -> None: ...
    @overload
    def __init__(
        self: "Statement[Row]", name: str, *, returns: type[Row], commits: bool, prepare: bool = False
    ) -> None: ...
    @overload
    def __init__(self: "Statement[tuple[object, ...]]", name: str, *, commits: bool, prepare: bool = False) -> None: ...
    def __init__(
        self,
        name: str,
        *,
        row: type[Any] | None = None,
        returns: type[Any] | None = None,
        commits: bool,
        prepare: bool = False,
    ) -> None:
        """Read the statement's file; raises OSError if there is no file of this name."""
        self.room, folder = folder_of(sys._getframe(1).f_globals, "sql")  # noqa: SLF001  as typing.NamedTuple does
        self.name = name
        self.commits = commits
        self.prepare = prepare
        self._row = row
        self._columns = [field.encode() for field in row._fields] if row else []
        self._is_value = returns is not None
        self._make: RowMaker[Any] = itemgetter(0) if self._is_value else row._make if row else tuple
        self._source = (folder / f"{name}.sql").read_text(encoding="utf-8")
        self.asks_number = _KNOWN_GENERATION in self._source
        self.asks_clock = _CLOCK in self._source

    def __str__(self) -> str:
        return f"{self.room}/sql/{self.name}.sql"

    def with_names(self, names: Mapping[str, str]) -> "Statement[Returned]":
        """Return this statement for one of several tables: `{table}` in its file stands for the text of that name.

        The texts are SQL, and become a part of the statement, so they must be constants of Weir's code.
        """
        named = copy(self)
        for name, text in names.items():
            named._source = named._source.replace(f"{{{name}}}", text)  # noqa: SLF001  of this class
        return named

    @cached_property
    def text(self) -> str:
        """The text that PostgreSQL executes."""
        return executed(self._source)

    def __call__(self, /, **parameters: object) -> list[Returned]:
        """Execute the statement; returns its rows.

        If the statement commits, and the gate has refused it because of the clock, it is executed once more: the first
        execution may only have reached PostgreSQL too late. Raises Django's database errors (`django.db.Error`), and
        WrongColumns, after the commit.
        """
        if not self.commits:
            return execute(self, parameters)
        own_commits.refuse_transaction(str(self))
        alone = transaction.atomic if connections[DEFAULT_DB_ALIAS].in_atomic_block else nullcontext  # a TestCase's
        try:
            with alone():
                return execute(self, parameters)
        except OperationalError as error:
            if not _came_late(error):
                raise
        _gate[0].read_clock()
        with alone():
            return execute(self, parameters)

    def rows(self, cursor: "psycopg.Cursor[Any]") -> "RowMaker[Returned]":
        """Return the function that makes this statement's rows, as a psycopg row factory; as fast as psycopg's own."""
        if (result := cursor.pgresult) is None:
            return no_result
        columns = [result.fname(i) for i in range(result.nfields)]
        if self._row is not None and columns != self._columns:
            raise WrongColumns(f"{self} returns {_difference(self._row, columns)}.")
        if self._is_value and len(columns) != 1:
            raise WrongColumns(f"{self} returns {len(columns)} columns, but is declared to return one.")
        return self._make


def _difference(row: type[Any], columns: Sequence[bytes | None]) -> str:
    names = [str(name or b"", "utf-8") for name in columns]
    lacking = [name for name in row._fields if name not in names]
    more = [name for name in names if name not in row._fields]
    if not lacking and not more:
        return f"the columns of {row.__name__} in another order, or twice: {', '.join(names)}"
    return f"other columns than {row.__name__}: without {lacking}, and with {more}"


def name_type(name: str, column: Callable[[], str]) -> None:
    """Let `::name` in every statement stand for a type: `column` returns it when the statement is first executed."""
    _named_types[name] = column


def executed(source: str) -> str:
    """Return the part of a file that is executed: its SQL, and the first line of its comment, which shows in logs.

    The other comments and the indentation are left out. psycopg caches how it has parsed a statement of up to 4,096
    characters. It parses a longer statement again each time, which takes a tenth as long as a reservation.
    """
    first, _, rest = source.partition("\n")
    short = _QUOTED_OR_BLANK.sub(lambda found: found[1] or "\n", rest)
    statement = f"{first}\n{short.strip()}"
    for name, column in _named_types.items():
        if f"::{name}" in statement:
            statement = statement.replace(f"::{name}", f"::{column()}")
    return statement


def execute(
    statement: Statement[Returned], parameters: Mapping[str, object], database: BaseDatabaseWrapper | None = None
) -> list[Returned]:
    """Execute the statement, in the open transaction if there is one. All calls of all statements end here."""
    database = database or connections[DEFAULT_DB_ALIAS]
    getattr(_thread, "before_each", _nothing)()
    if statement.prepare:
        _plan_anew(database)  # before the clock is read, because it may take a round trip
    clock = _gate[0].clock() if statement.asks_clock else None
    database.ensure_connection()
    # Django's own cursors put the values into the statement's text, and cannot prepare statements.
    with (
        _closed_if_interrupted(database),
        database.wrap_database_errors,
        psycopg.Cursor(_raw(database), row_factory=statement.rows) as cursor,
    ):
        if statement.asks_number:
            parameters = {**parameters, "known_generation": _gate[0].known_generation()}
        if statement.asks_clock:
            parameters = {**parameters, "clock": clock}
        cursor.execute(statement.text, parameters, prepare=statement.prepare, binary=True)
        return cursor.fetchall() if cursor.description else []


class Execute(Protocol):
    """Executes a statement that does not commit by itself."""

    def __call__(self, statement: Statement[Returned], /, **parameters: object) -> list[Returned]: ...


@contextmanager
def own_transaction() -> Iterator[Execute]:
    """Execute statements in a transaction that is not the caller's, and that commits at the end of the block.

    Yields a function that executes a statement. The statement's changes stay even if the caller rolls back, and no
    other process has to wait for the end of the caller's transaction. If the caller has a transaction open, the block
    uses a second connection, except in a Django TestCase, which must leave nothing behind. Raises Django's database
    errors.
    """
    callers = connections[DEFAULT_DB_ALIAS]
    is_open = not own_commits.is_in_test_case() and bool(callers.in_atomic_block or not callers.get_autocommit())
    database = sessions.another(callers) if is_open else callers

    def execute_there(statement: Statement[Returned], /, **parameters: object) -> list[Returned]:
        return execute(statement, parameters, database)

    try:
        database.ensure_connection()
        with database.wrap_database_errors, _raw(database).transaction():
            yield execute_there
    finally:
        if database is not callers:
            database.close()


class GateParameters(NamedTuple):
    """The functions that return the parameters of statements that ask the gate (weir/postgres/timeline/gate.py)."""

    known_generation: Callable[[], int]
    clock: Callable[[], object]  # the times that PostgreSQL's clock may show; asks PostgreSQL now and then
    read_clock: Callable[[], object]  # asks PostgreSQL each time


_gate: list[GateParameters] = []


def guard(gate: GateParameters) -> None:
    """Take the parameters of each statement that asks the gate from these functions."""
    _gate[:] = [gate]


def before_each(call: Callable[[], None]) -> None:
    """Call `call` before each statement that this thread executes."""
    _thread.before_each = call


def _plan_anew(database: BaseDatabaseWrapper) -> None:
    database.ensure_connection()
    with _closed_if_interrupted(database), database.wrap_database_errors:
        sessions.plan_anew(_raw(database))


def _came_late(error: OperationalError) -> bool:
    """Return whether the gate has refused the statement because of PostgreSQL's clock."""
    return getattr(error.__cause__, "sqlstate", None) == _LATE


def _raw(database: BaseDatabaseWrapper) -> "psycopg.Connection[Any]":
    return cast("psycopg.Connection[Any]", database.connection)


@contextmanager
def _closed_if_interrupted(database: BaseDatabaseWrapper) -> Iterator[None]:
    """Close the connection if the wait for the answer was interrupted, for example by Celery's soft time limit.

    Such a connection can execute no further statement. In a transaction, Django closes it when the transaction ends.
    """
    try:
        yield
    finally:
        is_busy = _raw(database) is not None and _raw(database).info.transaction_status is TransactionStatus.ACTIVE
        if is_busy and not database.in_atomic_block:
            database.close()


def _nothing() -> None:
    pass


def bigints(numbers: Iterable[int]) -> str:
    """Return many numbers as the text of an array parameter, because psycopg takes four times as long for a list."""
    return "{" + ",".join(map(str, numbers)) + "}"
