"""Migrations run while everything is at work: what they do to tables that have rows holds nobody up."""

from collections.abc import Iterator, Sequence

from django.apps import apps
from django.contrib.postgres.operations import (
    AddConstraintNotValid,
    AddIndexConcurrently,
    RemoveIndexConcurrently,
    ValidateConstraint,
)
from django.db import models
from django.db.migrations import (
    AddConstraint,
    AddField,
    AddIndex,
    CreateModel,
    Migration,
    RemoveIndex,
    RunPython,
)
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations.base import Operation

from project.checkout import CHECKOUT
from tests.cases import for_each
from weir.postgres.operations import AddUniqueConstraintConcurrently

CONCURRENT = (AddIndexConcurrently, AddUniqueConstraintConcurrently, RemoveIndexConcurrently)


def faults(operations: Sequence[Operation], *, atomic: bool) -> Iterator[str]:
    """Yield what is wrong with a migration of tables that have rows."""
    new = {operation.name.lower() for operation in operations if isinstance(operation, CreateModel)}
    for operation in operations:
        if getattr(operation, "model_name", "").lower() not in new:
            yield from _fault(operation)
    if not atomic and not all(isinstance(operation, CONCURRENT) for operation in operations):
        yield "a migration that is no transaction has concurrent operations only"
    if len({type(operation) for operation in operations} & {AddConstraintNotValid, ValidateConstraint}) > 1:
        yield "a constraint is validated in a migration after the one that adds it"


def _fault(operation: Operation) -> Iterator[str]:
    match operation:
        case AddConstraintNotValid():
            pass
        case _ if isinstance(operation, CONCURRENT):
            pass
        case AddIndex() | RemoveIndex():
            yield f"{type(operation).__name__}Concurrently, in a migration with atomic = False"
        case AddConstraint():
            yield "AddConstraintNotValid, and ValidateConstraint in the next migration"
        case AddField(field=models.GeneratedField()):
            yield "a generated column is computed for all rows while the table is locked"


INDEX = models.Index(fields=["title"], name="by_title")
CHECK = models.CheckConstraint(condition=models.Q(title__gt=""), name="has_title")
UNIQUE = models.UniqueConstraint(fields=["title"], condition=models.Q(title__gt=""), name="one_title")
GENERATED = models.GeneratedField(
    expression=models.functions.Upper("title"), output_field=models.TextField(), db_persist=True
)


@for_each(
    ("operations", "atomic", "said"),
    [
        ([AddIndex("book", INDEX)], True, ["AddIndexConcurrently"]),
        ([RemoveIndex("book", "by_title")], True, ["RemoveIndexConcurrently"]),
        ([AddIndexConcurrently("book", INDEX)], False, []),
        ([AddIndexConcurrently("book", INDEX), RunPython(print)], False, ["no transaction"]),
        ([AddConstraint("book", CHECK)], True, ["AddConstraintNotValid"]),
        ([AddUniqueConstraintConcurrently("book", UNIQUE)], False, []),
        ([AddConstraintNotValid("book", CHECK)], True, []),
        ([AddConstraintNotValid("book", CHECK), ValidateConstraint("book", "has_title")], True, ["after the one"]),
        ([AddField("book", "title", models.TextField(null=True))], True, []),
        ([AddField("book", "title2", GENERATED)], True, ["generated"]),
        ([CreateModel("Book", []), AddIndex("book", INDEX), AddConstraint("book", CHECK)], True, []),
    ],
)
def test_the_rule(operations: list[Operation], atomic: bool, said: list[str]) -> None:
    """What waits for a long lock is refused, unless the table is as new as what is done to it."""
    found = list(faults(operations, atomic=atomic))
    assert len(found) == len(said)
    assert all(words in fault for words, fault in zip(said, found, strict=True))


def ours() -> list[Migration]:
    """Return the migrations of our apps that may find rows."""
    labels = {app.label for app in apps.get_app_configs() if (CHECKOUT / app.name.partition(".")[0]).is_dir()}
    found = MigrationLoader(None).disk_migrations
    return [migration for (label, _), migration in found.items() if label in labels and not migration.initial]


def test_our_migrations_keep_to_it() -> None:
    """Each but the first of an app, which finds no rows."""
    told = {str(migration): list(faults(migration.operations, atomic=migration.atomic)) for migration in ours()}
    assert {name: found for name, found in told.items() if found} == {}
