"""What a migration may do to tables while the version before reads and writes them: pure.

Judged are operations, not their SQL: no server is needed, and a rule can ask what a constraint names.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final

from django.contrib.postgres.operations import AddConstraintNotValid
from django.db import connection, models
from django.db.migrations import (
    AddConstraint,
    AddField,
    AlterField,
    AlterModelTable,
    DeleteModel,
    RemoveConstraint,
    RemoveField,
    RenameField,
    RenameModel,
    RunSQL,
    SeparateDatabaseAndState,
)
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState
from django.db.models.fields import NOT_PROVIDED

GONE: Final = "the version before uses it: drop it in the version after the one that stopped using it"
RENAMED: Final = "the version before knows the old name: add another one, and drop the old one later"
# What a statement takes away, and why that breaks the version before.
SQL: Final = {
    r"\bDROP\b(?! (NOT NULL|DEFAULT))": GONE,
    r"\bRENAME\b": RENAMED,
    r"\bALTER COLUMN \S+ (SET DATA )?TYPE\b": "a column of another type is another column",
    r"\bSET NOT NULL\b": "the version before may write NULL",
    r"\bCREATE (UNIQUE )?INDEX (?!CONCURRENTLY)": "an index on a table with rows is built CONCURRENTLY",
    r"\bADD CONSTRAINT\b(?!.*\bNOT VALID\b)": "a constraint on a table with rows is NOT VALID, and validated later",
    r"\bOR REPLACE\b(?! TRIGGER\b)": "the version before calls it as it was: create another one",
}


def breaks(operations: Sequence[Operation], app: str, before: ProjectState) -> Iterator[str]:
    """Yield what the version before, whose tables are `before`, cannot live with."""
    wider = list(_wider(operations, app, before))
    for operation in operations:
        if operation in wider:
            continue
        if isinstance(operation, SeparateDatabaseAndState):
            yield from breaks(operation.database_operations, app, before)
        elif isinstance(operation, RunSQL):
            yield from (f"RunSQL: {why}" for why in _of_sql(str(operation.sql)))
        elif (app, _model(operation)) in before.models:
            yield from (f"{operation.describe()}: {why}" for why in _of_operation(operation, app, before))


def _wider(operations: Sequence[Operation], app: str, before: ProjectState) -> Iterator[Operation]:
    """Yield what replaces a list of the values of a field by a longer one: all that the version before writes is taken.

    That it can read the new values is for docs/how-to/upgrade.md to say.
    """
    gone = {it.name: it for it in operations if isinstance(it, RemoveConstraint)}
    for added in operations:
        if not isinstance(added, AddConstraintNotValid) or added.constraint.name not in gone:
            continue
        model = before.models.get((app, _model(added)))
        had = [it for it in model.options.get("constraints", []) if it.name == added.constraint.name] if model else []
        for constraint in had:
            (field, few), (same, many) = _listed(constraint), _listed(added.constraint)
            if field and field == same and few <= many:
                yield from (gone[constraint.name], added)


def _listed(constraint: models.BaseConstraint) -> tuple[str, set[Any]]:
    """Return the field of which a constraint lists the values, and these; no name for any other constraint."""
    match getattr(getattr(constraint, "condition", None), "children", None):
        case [(str(look_up), [*values])] if look_up.endswith("__in"):
            return look_up, set(values)
    return "", set()


def _model(operation: Operation) -> str:
    """Return the model that is changed, in small letters."""
    name = getattr(operation, "model_name", "") or getattr(operation, "old_name", "") or getattr(operation, "name", "")
    return str(name).lower()


def _of_sql(text: str) -> Iterator[str]:
    for pattern, why in SQL.items():
        if re.search(pattern, text, re.IGNORECASE | re.DOTALL):
            yield why


def _of_operation(operation: Operation, app: str, before: ProjectState) -> Iterator[str]:
    fields = before.models[app, _model(operation)].fields
    match operation:
        case RemoveField() | DeleteModel():
            yield GONE
        case RenameField() | RenameModel() | AlterModelTable():
            yield RENAMED
        case RemoveConstraint():
            yield "the version before may rely on it, as ON CONFLICT does, or not read what it kept out"
        case AddField():
            yield from _of_new_field(operation.field)
        case AlterField() if operation.name in fields:
            yield from _of_field(fields[operation.name], operation.field)
        case AddConstraint() if named := _named(operation.constraint, fields) & set(fields):
            yield f"the version before may write what it refuses ({', '.join(sorted(named))})"


def _of_new_field(field: "models.Field[Any, Any]") -> Iterator[str]:
    is_column = field.get_internal_type() != "ManyToManyField" and not getattr(field, "generated", False)
    if is_column and not field.null and field.db_default is NOT_PROVIDED:
        yield "the version before inserts rows without it: it may be null, or has a db_default"
    if _has_index(field):
        yield "its index is built while the table is locked: AddIndexConcurrently, in another migration"


def _of_field(before: "models.Field[Any, Any]", after: "models.Field[Any, Any]") -> Iterator[str]:
    if _type(before) != _type(after) and not _is_wider(before, after):
        yield "a column of another type is another column"
    if before.null and not after.null:
        yield "the version before may write NULL"
    if before.db_default is not NOT_PROVIDED and after.db_default is NOT_PROVIDED:
        yield "the version before may leave the value to the database"
    if _has_index(after) and (after.unique != before.unique or not _has_index(before)):
        yield "its index is built while the table is locked: AddIndexConcurrently, in another migration"


def _has_index(field: "models.Field[Any, Any]") -> bool:
    return field.unique or bool(getattr(field, "db_index", False))


def _type(field: "models.Field[Any, Any]") -> object:
    return field.db_type(connection)


def _is_wider(before: "models.Field[Any, Any]", after: "models.Field[Any, Any]") -> bool:
    """Tell whether it only takes longer texts, which costs nothing and which the version before can read."""
    both = isinstance(before, models.CharField) and isinstance(after, models.CharField)
    return both and (after.max_length or 0) > (before.max_length or 0)


def _named(constraint: models.BaseConstraint, fields: Collection[str]) -> set[str]:
    """Return the fields that a constraint is about; with expressions, which may name any, all."""
    if getattr(constraint, "expressions", ()):
        return set(fields)
    condition = getattr(constraint, "condition", None)
    return {*getattr(constraint, "fields", ()), *(condition.referenced_base_fields if condition else ())}
