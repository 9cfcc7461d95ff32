"""Django's private parts are as weir.notifications.django_private relies on; a Django that differs fails here first."""

import inspect
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import django
import pytest
from django.contrib.admin.models import LogEntry
from django.core import serializers
from django.db import DEFAULT_DB_ALIAS, connections, models
from django.db.models import Case, Count, Exists, F, Q, QuerySet, Subquery, Value, When
from django.db.models.expressions import RawSQL
from django.db.models.functions import Now
from django.test import TestCase

from tests.cases import for_each
from weir.notifications import django_private
from weir.notifications.models import Notification

ROWS = QuerySet[Notification](Notification)
DIFFERS = f"Django {django.get_version()} differs from what weir.notifications.django_private relies on:"


# --- saving a row ---------------------------------------------------------------------------------


def test_save_table_has_the_signature_that_is_overridden() -> None:
    """The same names in the same order, with the same defaults: Django passes some of them by position."""
    [of_django, ours] = [
        [(parameter.name, parameter.default) for parameter in inspect.signature(method).parameters.values()]
        for method in (models.Model._save_table, django_private.InterceptedModel._save_table)  # type: ignore[attr-defined]
    ]
    assert of_django == ours, f"{DIFFERS} Model._save_table takes other parameters."


@pytest.mark.parametrize(
    ("save", "force_insert", "update_fields"),
    [
        (lambda row: row.save(using="default"), False, None),
        (lambda row: row.save(using="default", force_insert=True), True, None),
        (lambda row: row.save(using="default", update_fields=["title"]), False, {"title"}),
        (lambda row: row.save_base(using="default", raw=True), False, None),
        (lambda row: serializers.base.DeserializedObject(row).save(using="default"), False, None),  # loaddata
    ],
    ids=["save", "save by force", "save some fields", "save_base", "loaddata"],
)
def test_whatever_saves_a_row_calls_save_row(
    save: Callable[[Any], None], force_insert: bool, update_fields: set[str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once, with the table, the database, and what is asked of it; what it returns is whether a row was updated."""
    seen: list[django_private.RowSave] = []

    def save_row(_row: Notification, save: django_private.RowSave) -> bool:
        seen.append(save)
        return True

    monkeypatch.setattr(Notification, "save_row", save_row)
    save(Notification(pk=1, user_id=1))
    assert len(seen) == 1, f"{DIFFERS} a row is written without Model._save_table."
    assert seen[0].table is Notification, f"{DIFFERS} _save_table gets another `cls`."
    assert (seen[0].using, seen[0].force_insert) == ("default", force_insert)
    assert seen[0].update_fields == update_fields, f"{DIFFERS} _save_table gets other `update_fields`."


# --- hooks ----------------------------------------------------------------------------------------


@pytest.fixture
def hooks(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return the hooks of a transaction with one savepoint, which is open without a database."""
    connection = connections[DEFAULT_DB_ALIAS]
    monkeypatch.setattr(connection, "in_atomic_block", True)
    monkeypatch.setattr(connection, "savepoint_ids", ["savepoint"])
    monkeypatch.setattr(connection, "run_on_commit", [])
    return connection.run_on_commit


def nothing() -> None:
    """Do nothing."""


def test_a_hook_is_its_savepoints_the_function_and_whether_it_is_robust(hooks: list[Any]) -> None:
    """`on_commit` appends exactly that."""
    connections[DEFAULT_DB_ALIAS].on_commit(nothing, robust=True)
    assert hooks == [({"savepoint"}, nothing, True)], f"{DIFFERS} connection.run_on_commit holds something else."


def test_a_hook_of_no_savepoint_outlives_the_rollback_of_one(hooks: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Django drops the hooks of the savepoint, and keeps ours, which then runs as the others do."""
    connection = connections[DEFAULT_DB_ALIAS]
    ran: list[str] = []
    connection.on_commit(lambda: ran.append("of the savepoint"))
    django_private.add_hook_of_no_savepoint(lambda: ran.append("of none"), using=DEFAULT_DB_ALIAS)
    monkeypatch.setattr(connection, "_savepoint_allowed", lambda: True)
    monkeypatch.setattr(connection, "_savepoint_rollback", lambda _savepoint: None)
    connection.savepoint_rollback("savepoint")
    assert len(connection.run_on_commit) == 1, f"{DIFFERS} a rolled-back savepoint keeps or drops other hooks."
    monkeypatch.setattr(connection, "in_atomic_block", False)
    connection.run_and_clear_commit_hooks()
    assert ran == ["of none"], f"{DIFFERS} hooks are run in another way."
    assert len(hooks) == 2, f"{DIFFERS} a rollback changes the list of hooks in place."


class Total:
    def __call__(self) -> None: ...


def test_the_last_hook_of_a_kind_is_taken_and_the_others_keep_their_places(hooks: list[Any]) -> None:
    """What is left in its place has its savepoints; without one of this kind nothing is taken."""
    first, last = Total(), Total()
    for hook in (first, last, nothing):
        connections[DEFAULT_DB_ALIAS].on_commit(hook)
    taken = django_private.take_hook(Total, using=DEFAULT_DB_ALIAS, leaving=nothing)
    assert taken is last
    assert [function for _, function, _ in hooks] == [first, nothing, nothing]
    assert all(savepoints == {"savepoint"} for savepoints, _, _ in hooks)
    assert django_private.take_hook(Total, using=DEFAULT_DB_ALIAS, leaving=nothing) is first
    assert django_private.take_hook(Total, using=DEFAULT_DB_ALIAS, leaving=nothing) is None


def test_the_hooks_of_a_kind_are_those_that_were_not_rolled_back(
    hooks: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In their order; others are left out, and so are those of a savepoint that is rolled back."""
    connection = connections[DEFAULT_DB_ALIAS]
    outer, inner = Total(), Total()
    connection.savepoint_ids = []
    connection.on_commit(outer)
    connection.savepoint_ids = ["savepoint"]
    for hook in (nothing, inner):
        connection.on_commit(hook)
    assert len(hooks) == 3
    assert list(django_private.hooks_of(Total, using=DEFAULT_DB_ALIAS)) == [outer, inner]
    monkeypatch.setattr(connection, "_savepoint_allowed", lambda: True)
    monkeypatch.setattr(connection, "_savepoint_rollback", lambda _savepoint: None)
    connection.savepoint_rollback("savepoint")
    assert list(django_private.hooks_of(Total, using=DEFAULT_DB_ALIAS)) == [outer], (
        f"{DIFFERS} a rolled-back savepoint keeps or drops other hooks."
    )


def test_hooks_hear_of_the_commit_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once each, whatever commits; they are still listed then, and run after it. Other hooks hear nothing."""
    heard: list[str] = []

    class Hook(django_private.CommitHook):
        def commits(self) -> None:
            heard.append("commits")

        def __call__(self) -> None:
            heard.append("committed")

    connection: Any = connections.create_connection(DEFAULT_DB_ALIAS)
    connection.connection = SimpleNamespace(commit=lambda: heard.append("COMMIT"))
    connection.run_on_commit = [(set(), Hook(), False), (set(), nothing, False)]
    monkeypatch.setattr(django_private, "connections", {DEFAULT_DB_ALIAS: connection})
    for _ in range(2):
        django_private.tell_before_commit(using=DEFAULT_DB_ALIAS)
    connection.commit()
    connection.run_and_clear_commit_hooks()
    assert heard == ["commits", "COMMIT", "committed"], f"{DIFFERS} connection.commit does not call _commit."
    connection.commit()
    assert heard[3:] == ["COMMIT"]


def test_captured_hooks_are_those_behind_a_place_in_the_list(hooks: list[Any]) -> None:
    """`captureOnCommitCallbacks` counts the hooks at its begin, so none before them may go."""
    connections[DEFAULT_DB_ALIAS].on_commit(Total())
    with TestCase.captureOnCommitCallbacks() as captured:
        django_private.take_hook(Total, using=DEFAULT_DB_ALIAS, leaving=nothing)
        django_private.add_hook_of_no_savepoint(nothing, using=DEFAULT_DB_ALIAS)
    assert captured == [nothing], f"{DIFFERS} captureOnCommitCallbacks finds hooks in another way."
    assert len(hooks) == 2


# --- querysets ------------------------------------------------------------------------------------


class Router:
    """Reads from one database, and writes to another."""

    def db_for_read(self, _model: object, **_hints: object) -> str:
        return "replica"

    def db_for_write(self, _model: object, **_hints: object) -> str:
        return "default"


def test_a_queryset_that_will_write_names_the_database_of_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also for what it reads from then on; the database of `using` stands in any case."""
    monkeypatch.setattr("django.db.router.routers", [Router()])
    rows = QuerySet[Notification](Notification)
    assert rows.db == "replica"
    assert django_private.database_of_writes(rows) == "default", f"{DIFFERS} `_for_write` has another meaning."
    assert rows.filter(pk=1).db == "default", f"{DIFFERS} `_for_write` is not handed on."
    assert django_private.database_of_writes(QuerySet(Notification, using="other")) == "other"


def test_a_queryset_forgets_the_rows_that_it_has_loaded() -> None:
    """They are in `_result_cache`, which is None where they have to be read."""
    rows = QuerySet[Notification](Notification)
    assert rows._result_cache is None, f"{DIFFERS} a queryset keeps its rows elsewhere."
    rows._result_cache = [Notification(pk=1)]
    assert [row.pk for row in rows] == [1], f"{DIFFERS} a queryset keeps its rows elsewhere."
    django_private.forget_loaded_rows(rows)
    assert rows._result_cache is None


def test_a_slice_is_known_as_one() -> None:
    """Whichever of its ends is given."""
    rows = QuerySet[Notification](Notification)
    assert not django_private.is_sliced(rows)
    assert all(django_private.is_sliced(part) for part in (rows[:1], rows[1:]))


# --- expressions ----------------------------------------------------------------------------------


@for_each("value", [F("pk"), F("pk") + 1, Value(1), Now(), Case()])
def test_what_the_database_computes_is_an_expression(value: object) -> None:
    """Whatever it is made of."""
    assert django_private.is_expression(value), f"{DIFFERS} {type(value)} is no expression."


@for_each("value", [None, 1, "1"])
def test_a_value_is_no_expression(value: object) -> None:
    """Python knows it."""
    assert not django_private.is_expression(value)


@for_each(
    ("rows", "values", "by_row"),
    [
        (ROWS, [1, None], True),
        (ROWS.filter(user_id=1, title__gt="a").exclude(kind="x").order_by("title").distinct(), [Now()], True),
        (ROWS.filter(Q(user_id=1) | Q(title=F("kind"))), [F("user_id") + 1], True),
        (ROWS.annotate(owner=F("user_id") + 1).filter(owner__in=[1, 2]), [F("owner")], True),
        (ROWS, [Case(When(user_id=1, then=1))], True),
        (ROWS.filter(pk__in=ROWS.filter(user_id=1)), [], False),
        (ROWS.filter(Q(pk=1) | ~Q(user_id__in=ROWS.values("user_id"))), [], False),
        (ROWS.filter(Exists(ROWS.all())), [], False),
        (ROWS.annotate(first=Subquery(ROWS.values("pk")[:1])), [], False),
        (ROWS.values("user_id").annotate(Count("pk")), [], False),
        (ROWS.distinct("user_id"), [], False),
        (ROWS.extra(where=["pk = 1"]), [], False),
        (ROWS.filter(pk=RawSQL("(SELECT max(id) FROM x)", ())), [], False),
        (ROWS.filter(pk=1).union(ROWS.filter(pk=2)), [], False),
        (ROWS, [Subquery(ROWS.values("user_id")[:1])], False),
        (ROWS, [Case(When(pk__in=ROWS.all(), then=1))], False),
        (QuerySet(LogEntry).filter(user__is_staff=True), [], False),
    ],
)
def test_a_queryset_knows_whether_it_looks_at_one_row_at_a_time(
    rows: QuerySet[Any], values: list[object], by_row: bool
) -> None:
    """A filter, or a value, that looks at other rows or tables is found, wherever it stands."""
    assert django_private.is_by_row(rows, values) is by_row, f"{DIFFERS} a query is made of other parts."
