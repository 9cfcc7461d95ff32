"""Runs the statements that stand in `.sql` files: one statement a file, one round trip a call.

Where a caller reads the fields of the rows, a NamedTuple declares them (`row`): the names of all columns, in the order
of the statement. Each execution compares the two. So a column that was renamed, added or removed in the SQL alone fails
the first test that executes the statement. Without one, rows are tuples of objects, which can only be counted: mypy
refuses to read them.
"""

import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import cache, partial
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, cast

import psycopg
from django.db import DEFAULT_DB_ALIAS, OperationalError, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.transaction import TransactionManagementError
from psycopg.pq import TransactionStatus
from psycopg.rows import RowFactory, RowMaker, no_result, tuple_row
from typing_extensions import TypeVar

from weir.postgres import sessions

Row = TypeVar("Row", bound=tuple[Any, ...], default=tuple[object, ...])


# The parameters that a statement has which asks the gate.
_KNOWN_NUMBER: Final = "%(known_number)s"
_CLOCK: Final = "%(clock)s"
# A text in quotes, or what says nothing to PostgreSQL: comments, line breaks, indents.
_QUOTED_OR_BLANK: Final = re.compile(r"""('[^']*'|"[^"]*")|\s*(?:--[^\n]*\s*|\n\s*)+""")
_LATE: Final = "57W02"  # the state of the gate's error where PostgreSQL's clock does not say what was expected


class WrongColumns(TypeError):
    """A statement does not return the columns that its caller has declared."""


class Query(Protocol):
    """Executes a statement of one package."""

    def __call__(self, name: str, parameters: Mapping[str, object], *, row: type[Row] | None = None) -> list[Row]: ...


_named_types: dict[str, Callable[[], str]] = {}


def name_type(name: str, column: Callable[[], str]) -> None:
    """Have `::name` in all statements stand for the type that `column` returns when a statement is read."""
    _named_types[name] = column


@cache
def _load(package: str, name: str) -> str:
    """Return a statement, below the first line of its comment, which tells in PostgreSQL's logs which one it is.

    The other comments are left out, and the indents: psycopg remembers how it has read a statement of up to 4,096
    characters. Reading a longer one takes it as long as a tenth of a reservation, each time.
    """
    text = files(package).joinpath("sql", f"{name}.sql").read_text(encoding="utf-8")
    first, _, rest = text.partition("\n")
    short = _QUOTED_OR_BLANK.sub(lambda found: found[1] or "\n", rest)
    statement = f"{first}\n{short.strip()}"
    for type_name, column in _named_types.items():
        if f"::{type_name}" in statement:
            statement = statement.replace(f"::{type_name}", f"::{column()}")
    return statement


_thread = threading.local()


def before_each(call: Callable[[], None]) -> None:
    """Have this called before each statement that this thread executes."""
    _thread.before_each = call


def load(package: str) -> None:
    """Read all statements of a package and of those below it, so that none has to be read later.

    A process that has run out of file descriptors can go on to execute what it has read.
    """
    root = Path(str(files(package)))
    for file in root.rglob("sql/**/*.sql"):
        parts = file.relative_to(root).with_suffix("").parts
        folder = parts.index("sql")
        _load(".".join((package, *parts[:folder])), "/".join(parts[folder + 1 :]))


class Gate(NamedTuple):
    """What gives statements that ask the gate (weir/postgres/timeline/gate.py) their parameters."""

    known_number: Callable[[], int]
    clock: Callable[[], object]  # what PostgreSQL's clock may say; asks PostgreSQL now and then
    read_clock: Callable[[], object]  # asks PostgreSQL now


_gate: list[Gate] = []


def guard(gate: Gate) -> None:
    """Have each statement that asks the gate get its parameters from this."""
    _gate[:] = [gate]


def is_in_transaction() -> bool:
    """Tell whether what is executed now would be committed, or rolled back, with what a caller does.

    That of a Django TestCase does not count: it stands for the database as it is outside of transactions, as it does
    for `atomic(durable=True)`.
    """
    if not connections[DEFAULT_DB_ALIAS].in_atomic_block:
        return False
    try:
        with transaction.atomic(durable=True, savepoint=False):
            return False
    except RuntimeError:
        return True


def _is_in_test_case() -> bool:
    """Tell whether a Django TestCase will roll back what is executed now, and what is committed inside of its test."""
    blocks: Any = connections[DEFAULT_DB_ALIAS].atomic_blocks  # whose types lack what Django has for `durable`
    return bool(blocks) and bool(blocks[0]._from_testcase)  # noqa: SLF001  as Django does


def refuse_transaction(what: str) -> None:
    """Raise TransactionManagementError if a transaction is open; its text names `what` must not run in one."""
    if is_in_transaction():
        raise TransactionManagementError(
            f"{what} must commit by itself: call it outside transaction.atomic(), "
            "for example in transaction.on_commit()."
        )


def run(
    package: str,
    name: str,
    parameters: Mapping[str, object],
    *,
    row: type[Row] | None = None,
    prepare: bool = False,
) -> list[Row]:
    """Execute `<package>/sql/<name>.sql` in a transaction of its own; returns its rows as instances of `row`.

    `prepare` is for statements that touch a few rows very often ("prepared plan" in docs/explanation/sql.md).

    One that the gate has refused, perhaps as it was on its way for too long, is tried once more. The statement has
    committed when this returns. Raises TransactionManagementError inside a transaction: what the statement reserves or
    claims must be committed before it is used, and must not be rolled back afterwards. Database errors are Django's
    (`django.db.Error`). WrongColumns comes after the commit.
    """
    refuse_transaction(f"{package}/sql/{name}.sql")
    alone = transaction.atomic if connections[DEFAULT_DB_ALIAS].in_atomic_block else nullcontext  # that of a TestCase
    try:
        with alone():
            return run_within(package, name, parameters, row=row, prepare=prepare)
    except OperationalError as error:
        if not _came_late(error):
            raise
    _gate[0].read_clock()
    with alone():
        return run_within(package, name, parameters, row=row, prepare=prepare)


def run_within(
    package: str,
    name: str,
    parameters: Mapping[str, object],
    *,
    row: type[Row] | None = None,
    prepare: bool = False,
    database: BaseDatabaseWrapper | None = None,
) -> list[Row]:
    """Execute the statement as `run` does, but in the transaction that is open, if one is: the caller's, as a rule."""
    database = database or connections[DEFAULT_DB_ALIAS]
    getattr(_thread, "before_each", _nothing)()
    statement = _load(package, name)
    if prepare:
        _plan_anew(database)  # before the clock is read, as it may take a round trip
    clock = _gate[0].clock() if _CLOCK in statement else None
    database.ensure_connection()
    factory = tuple_row if row is None else _rows_of(row, f"{package}/sql/{name}.sql")
    # Django's own cursors write the values into the text, and cannot prepare it.
    with (
        _closed_if_interrupted(database),
        database.wrap_database_errors,
        psycopg.Cursor(_raw(database), row_factory=cast("RowFactory[Row]", factory)) as cursor,
    ):
        if _KNOWN_NUMBER in statement:
            parameters = {**parameters, "known_number": _gate[0].known_number()}
        if _CLOCK in statement:
            parameters = {**parameters, "clock": clock}
        cursor.execute(statement, parameters, prepare=prepare, binary=True)
        return cursor.fetchall() if cursor.description else []


@contextmanager
def own_transaction(package: str) -> Iterator[Query]:
    """Run statements of the package in a transaction that is not the caller's, and commits at the end of the block.

    Yields a function that executes one, as `run` does. What it changes stays, also where the caller rolls back; and no
    other process waits for the caller's transaction. While a transaction is open, this takes a second connection for
    the time of the block; but for a Django TestCase, of which nothing may stay. Database errors are Django's.
    """
    callers = connections[DEFAULT_DB_ALIAS]
    is_open = not _is_in_test_case() and bool(callers.in_atomic_block or not callers.get_autocommit())
    database = sessions.another(callers) if is_open else callers
    try:
        database.ensure_connection()
        with database.wrap_database_errors, _raw(database).transaction():
            yield partial(run_within, package, database=database)
    finally:
        if database is not callers:
            database.close()


def _plan_anew(database: BaseDatabaseWrapper) -> None:
    database.ensure_connection()
    with _closed_if_interrupted(database), database.wrap_database_errors:
        sessions.plan_anew(_raw(database))


def _came_late(error: OperationalError) -> bool:
    """Tell whether the gate has refused the statement for what PostgreSQL's clock says."""
    return getattr(error.__cause__, "sqlstate", None) == _LATE


def _raw(database: BaseDatabaseWrapper) -> "psycopg.Connection[Any]":
    return cast("psycopg.Connection[Any]", database.connection)


@contextmanager
def _closed_if_interrupted(database: BaseDatabaseWrapper) -> Iterator[None]:
    """Close the connection where the wait for the answer was interrupted, as by Celery's soft time limit.

    It would take no other statement. In a transaction that is left to Django, which ends the transaction.
    """
    try:
        yield
    finally:
        is_busy = _raw(database) is not None and _raw(database).info.transaction_status is TransactionStatus.ACTIVE
        if is_busy and not database.in_atomic_block:
            database.close()


@cache
def _rows_of(row: type[Row], statement: str) -> RowFactory[Row]:
    """Return what makes instances of `row` of the statement's rows. Costs no more than psycopg's namedtuple_row."""
    fields: tuple[str, ...] = row._fields  # type: ignore[attr-defined]  # of any NamedTuple
    declared: list[bytes | None] = [field.encode() for field in fields]
    make: RowMaker[Row] = row._make  # type: ignore[attr-defined]

    def made(cursor: "psycopg.Cursor[Any]") -> RowMaker[Row]:
        if (result := cursor.pgresult) is None:
            return no_result
        columns = [result.fname(i) for i in range(result.nfields)]
        if columns != declared:
            raise WrongColumns(
                _difference(row.__name__, fields, statement, [str(name or b"", "utf-8") for name in columns])
            )
        return make

    return made


def _difference(row: str, fields: Sequence[str], statement: str, columns: Sequence[str]) -> str:
    lacking = [name for name in fields if name not in columns]
    more = [name for name in columns if name not in fields]
    if not lacking and not more:
        return f"{statement} returns the columns of {row} in another order, or twice: {', '.join(columns)}."
    return f"{statement} returns other columns than {row}: without {lacking}, and with {more}."


def _nothing() -> None:
    pass


def bigints(numbers: Iterable[int]) -> str:
    """Return many numbers as the text of an array parameter: psycopg takes four times as long for a list."""
    return "{" + ",".join(map(str, numbers)) + "}"
