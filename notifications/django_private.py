"""All parts of Django that Weir uses although Django does not document them, and may change them in any release.

Tested with Django 5.2 and 6.0. `tests/unit/notifications/test_django_private.py` tests what this module relies on: run
that test first with another version of Django. No other module uses private parts of Django.

1. `Model._save_table` writes one row to one table, whatever saves it: `save`, `create`, or `save_base`, which
   `loaddata` calls.
2. `connection.run_on_commit` lists the hooks of the current transaction, each as (savepoints, function, robust).
   Rolling a savepoint back makes a new list without the hooks of that savepoint. `connection._commit` does every
   commit, and the list still exists at that time.
3. A queryset knows whether it will write (`_for_write`), which rows it has loaded (`_result_cache`), and whether it is
   a slice (`query.is_sliced`). Its `query` knows the SQL, and the parts of which the query consists.
4. An expression, which the database computes, is a `BaseExpression` or a `Combinable`.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import psycopg
from django.core.exceptions import EmptyResultSet
from django.db import connections, models, router
from django.db.models.base import ModelBase
from django.db.models.expressions import BaseExpression, Combinable, RawSQL, Subquery, Window
from django.db.models.sql import Query

STREAMED_AT_ONCE = 1_000  # rows

Hook = TypeVar("Hook", bound=Callable[[], None])


# --- 1: saving a row ------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class RowSave:
    """A row that Django is about to write to one table of the database `using`."""

    table: type[models.Model] | None  # an inheriting model has a row in several tables
    using: str
    force_insert: bool
    update_fields: Iterable[str] | None  # None: all
    write: Callable[..., bool]  # writes the row, with other `update_fields` if given; returns whether it updated a row


class InterceptedModel(models.Model):
    """A model whose own `save_row` writes each row that Django saves."""

    class Meta:
        abstract = True

    def save_row(self, save: RowSave) -> bool:
        """Call `save.write`, and return its result. Receivers of signals run before or after this method."""
        return save.write()

    def _save_table(  # noqa: PLR0917  Django's signature
        self,
        raw: bool = False,
        cls: type[models.Model] | None = None,
        force_insert: bool | tuple[ModelBase, ...] = False,
        force_update: bool = False,
        using: str | None = None,
        update_fields: Iterable[str] | None = None,
    ) -> bool:
        using = using or router.db_for_write(type(self), instance=self)
        write: Callable[..., bool] = partial(
            super()._save_table,  # type: ignore[misc]  # the stubs lack it
            raw,
            cls,
            force_insert,
            force_update,
            using,
            update_fields=update_fields,
        )
        return self.save_row(
            RowSave(table=cls, using=using, force_insert=bool(force_insert), update_fields=update_fields, write=write)
        )


# --- 2: hooks of the current transaction ----------------------------------------------------------


def take_hook(kind: type[Hook], *, using: str, leaving: Callable[[], None]) -> Hook | None:
    """Take the last hook that is an instance of `kind` out of the list, and return it; None if there is none.

    The hook then does not run. `leaving` runs in its place, so that the other hooks keep their places in the list:
    `captureOnCommitCallbacks` counts them.
    """
    hooks: list[Any] = connections[using].run_on_commit
    for place in range(len(hooks) - 1, -1, -1):  # from the end, where the hook usually is
        savepoints, function, robust = hooks[place]
        if isinstance(function, kind):
            hooks[place] = (savepoints, leaving, robust)
            return function
    return None


def hooks_of(kind: type[Hook], *, using: str) -> Iterator[Hook]:
    """Yield the current transaction's hooks that are instances of `kind`, except hooks of rolled-back savepoints."""
    hooks: list[Any] = connections[using].run_on_commit
    for _, function, _ in hooks:
        if isinstance(function, kind):
            yield function


def add_hook_of_no_savepoint(hook: Callable[[], None], *, using: str) -> None:
    """Run the hook after all others when the transaction commits, even if the current savepoint is rolled back."""
    hooks: list[Any] = connections[using].run_on_commit
    hooks.append((set(), hook, False))


class CommitHook:
    """A hook that is told when its transaction is about to commit."""

    def commits(self) -> None:
        """React to the COMMIT, which follows directly; then other transactions may see what this transaction did."""
        raise NotImplementedError

    def __call__(self) -> None:
        raise NotImplementedError


def tell_before_commit(*, using: str) -> None:
    """From now on, call `commits` of all CommitHooks of a transaction of this connection right before its COMMIT."""
    database: Any = connections[using]
    if "_commit" in vars(database):
        return
    commit = database._commit

    def tell_and_commit() -> None:
        for hook in hooks_of(CommitHook, using=using):
            hook.commits()
        commit()

    database._commit = tell_and_commit


# --- 3 and 4: querysets and expressions -----------------------------------------------------------


def database_of_writes(rows: models.QuerySet[Any]) -> str:
    """Return the database to which the queryset writes. From now on, the queryset also reads from it."""
    rows._for_write = True  # type: ignore[attr-defined]  # the stubs lack it
    return rows.db


def forget_loaded_rows(rows: models.QuerySet[Any]) -> None:
    """Make the queryset read its rows again when they are next asked for."""
    rows._result_cache = None


def is_sliced(rows: models.QuerySet[Any]) -> bool:
    """Return whether the queryset is a slice, which Django neither updates nor deletes."""
    return rows.query.is_sliced


def is_expression(value: object) -> bool:
    """Return whether the database computes the value, so that Python does not know it."""
    return isinstance(value, BaseExpression | Combinable)


def streamed(rows: models.QuerySet[Any, Any]) -> Iterator[Any]:
    """Yield the rows of a `values_list` one by one, without Django's conversions. They are never all in memory.

    This takes one round trip, fewer than a server-side cursor. No other statement can run before the last row.
    """
    database = connections[rows.db]
    try:
        sql, parameters = rows.query.get_compiler(using=rows.db).as_sql()
    except EmptyResultSet:
        return
    with database.cursor() as cursor, database.wrap_database_errors:
        many = {"size": STREAMED_AT_ONCE} if psycopg.capabilities.has_stream_chunked() else {}
        yield from cursor.cursor.stream(sql, parameters, **many)


def is_by_row(rows: models.QuerySet[Any], values: Iterable[object] = ()) -> bool:
    """Return whether each row alone decides if it is in the queryset, and what its values are; False if in doubt.

    If the result is True, changing some of the rows does not affect the others.
    """
    query = rows.query
    tables = sum(count > 0 for count in query.alias_refcount.values())
    if tables > 1 or query.group_by is not None or query.distinct_fields or query.combinator or query.extra:
        return False
    parts = [*query.where.leaves(), *query.annotations.values(), *filter(is_expression, values)]
    return all(_is_of_row(part) for part in parts)


OF_OTHER_ROWS = (Query, models.QuerySet, RawSQL, Subquery, Window)


def _is_of_row(part: Any) -> bool:  # noqa: ANN401  conditions have no type in common
    if not hasattr(part, "flatten"):  # such as F; a part that is not a Combinable either is in doubt
        return isinstance(part, Combinable)
    return not any(isinstance(inner, OF_OTHER_ROWS) for inner in part.flatten())
