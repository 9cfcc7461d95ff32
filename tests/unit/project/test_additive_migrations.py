"""Migrations that came after the version before leave it all that it reads and writes: it runs on meanwhile."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from django.apps import apps
from django.contrib.postgres.operations import AddConstraintNotValid
from django.db import models
from django.db.migrations import (
    AddConstraint,
    AddField,
    AlterField,
    CreateModel,
    DeleteModel,
    Migration,
    RemoveConstraint,
    RemoveField,
    RenameField,
    RenameModel,
    RunSQL,
)
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ModelState, ProjectState

from project.checkout import CHECKOUT
from tests import upgrade_from
from tests.cases import for_each
from tests.unit.project.additive import breaks

SHORTEST_REASON = 20  # characters


class SecondHalf(NamedTuple):
    """What a migration says that takes away what the version before has stopped using."""

    of: str
    why: str


def faults(name: str, migration: Migration, before: ProjectState, known: Sequence[str]) -> Iterator[str]:
    """Yield what is wrong with a migration; `known` are those of the version before, as "app.name".

    `second_half = ("0015_traceparent", "no version since 0015 reads the column")` allows what would break: the first
    half is in the version before.
    """
    found = list(breaks(migration.operations, migration.app_label, before))
    said = getattr(migration, "second_half", None)
    if said is None:
        yield from (f"{name}: {why}" for why in found)
        return
    half = SecondHalf(*said)
    if f"{migration.app_label}.{half.of}" not in known:
        yield f"{name}: the version before does not have {half.of}, the first half"
    if len(half.why) < SHORTEST_REASON:
        yield f"{name}: second_half gives no reason"
    if not found:
        yield f"{name}: second_half allows nothing"


CHECK = models.CheckConstraint(condition=models.Q(title__gt=""), name="has_title")
BEFORE = ProjectState(
    models={
        ("shop", "book"): ModelState(
            "shop",
            "Book",
            [
                ("id", models.BigAutoField(primary_key=True)),
                ("title", models.CharField(max_length=10)),
                ("note", models.TextField(null=True)),
                ("pages", models.IntegerField(db_default=0)),
            ],
        )
    }
)


@for_each(
    ("operation", "said"),
    [
        (CreateModel("Shelf", []), ""),
        (RemoveField("book", "title"), "uses it"),
        (RenameField("book", "title", "name"), "old name"),
        (RenameModel("Book", "Volume"), "old name"),
        (DeleteModel("Book"), "uses it"),
        (DeleteModel("Shelf"), ""),
        (AddField("book", "size", models.IntegerField()), "without it"),
        (AddField("book", "size", models.IntegerField(default=1)), "without it"),
        (AddField("book", "size", models.IntegerField(null=True)), ""),
        (AddField("book", "size", models.IntegerField(db_default=1)), ""),
        (AddField("shelf", "size", models.IntegerField()), ""),
        (AddField("book", "shelf", models.ForeignKey("shop.Shelf", models.CASCADE, null=True)), "is locked"),
        (AlterField("book", "title", models.CharField(max_length=20)), ""),
        (AlterField("book", "title", models.CharField(max_length=5)), "another type"),
        (AlterField("book", "title", models.CharField(max_length=10, choices=[("a", "A")])), ""),
        (AlterField("book", "title", models.CharField(max_length=10, unique=True)), "is locked"),
        (AlterField("book", "note", models.TextField()), "write NULL"),
        (AlterField("book", "pages", models.BigIntegerField(db_default=0)), "another type"),
        (AlterField("book", "pages", models.IntegerField()), "leave the value"),
        (AddConstraint("book", CHECK), "refuses (title)"),
        (AddConstraintNotValid("book", CHECK), "refuses (title)"),
        (AddConstraintNotValid("book", models.CheckConstraint(condition=models.Q(size__gt=1), name="large")), ""),
        (AddConstraint("book", models.UniqueConstraint(fields=["title"], name="one")), "refuses (title)"),
        (
            AddConstraint("book", models.UniqueConstraint(models.functions.Lower("title"), name="one_lower")),
            "refuses (id, note, pages, title)",
        ),
        (RemoveConstraint("book", "has_title"), "rely on it"),
        (RunSQL("ALTER TABLE shop_book DROP COLUMN title"), "uses it"),
        (RunSQL("ALTER TABLE shop_book ALTER COLUMN title TYPE text"), "another type"),
        (RunSQL("ALTER TABLE shop_book ALTER title SET NOT NULL"), "write NULL"),
        (RunSQL("CREATE INDEX by_title ON shop_book (title)"), "CONCURRENTLY"),
        (RunSQL("CREATE INDEX CONCURRENTLY by_title ON shop_book (title)"), ""),
        (RunSQL("ALTER TABLE shop_book ADD CONSTRAINT large CHECK (pages > 1)"), "NOT VALID"),
        (RunSQL("CREATE FUNCTION one() RETURNS int LANGUAGE sql AS 'SELECT 1'", "DROP FUNCTION one"), ""),
        (RunSQL("CREATE OR REPLACE FUNCTION one() RETURNS int LANGUAGE sql AS 'SELECT 2'"), "as it was"),
        (RunSQL("CREATE OR REPLACE TRIGGER sold AFTER UPDATE ON shop_book EXECUTE FUNCTION one()"), ""),
    ],
)
def test_the_rule(operation: Operation, said: str) -> None:
    """What the version before reads and writes stays as it is; what it does not know may be anything."""
    found = list(breaks([operation], "shop", BEFORE))
    assert len(found) == bool(said)
    assert all(said in fault for fault in found)


def test_a_constraint_that_lists_values_may_become_longer() -> None:
    """In one migration: what the version before writes is taken as before. A shorter list, or another field, is not."""

    def found(*values: str, field: str = "title") -> int:
        with_list = BEFORE.clone()
        with_list.add_constraint("shop", "book", _one_of("title", "a", "b"))
        replaced = [RemoveConstraint("book", "known"), AddConstraintNotValid("book", _one_of(field, *values))]
        return len(list(breaks(replaced, "shop", with_list)))

    assert (found("a", "b", "c"), found("b", "a")) == (0, 0)
    assert (found("a", "c"), found("a", "b", "c", field="note")) == (2, 2)


def _one_of(field: str, *values: str) -> models.CheckConstraint:
    return models.CheckConstraint(condition=models.Q(**{f"{field}__in": list(values)}), name="known")


@for_each(
    ("second_half", "operation", "said"),
    [
        (("0001_first", "no version since the first reads the title"), RemoveField("book", "title"), []),
        (("0002_new", "no version since the first reads the title"), RemoveField("book", "title"), ["does not have"]),
        (("0001_first", "because"), RemoveField("book", "title"), ["no reason"]),
        (("0001_first", "no version since the first reads the title"), CreateModel("Shelf", []), ["nothing"]),
    ],
)
def test_a_second_half_says_of_what_and_why(
    second_half: tuple[str, str], operation: Operation, said: list[str]
) -> None:
    """The version before must have the first half: it has stopped using what goes."""
    migration = Migration("0003_last", "shop")
    migration.operations = [operation]  # type: ignore[misc]  # as Migration.__init__ does
    migration.second_half = second_half  # type: ignore[attr-defined]  # of such a migration alone
    found = list(faults("shop.0003_last", migration, BEFORE, ["shop.0001_first"]))
    assert len(found) == len(said)
    assert all(words in fault for words, fault in zip(said, found, strict=True))


def test_our_migrations_keep_to_it() -> None:
    """Those that the version before has are accepted."""
    loader, theirs = MigrationLoader(None), upgrade_from.files()
    configs = [app for app in apps.get_app_configs() if _is_ours(app.path)]
    ours = {app.label: Path(app.path).resolve().relative_to(CHECKOUT) for app in configs}
    nodes = [key for key in loader.disk_migrations if key[0] in ours]
    known = [key for key in nodes if str(ours[key[0]] / "migrations" / f"{key[1]}.py") in theirs]
    assert known, "the version before has migrations"
    others = [key for key in loader.disk_migrations if key[0] not in ours]
    before = loader.project_state(others + known)
    names = [".".join(key) for key in known]
    new = [key for key in nodes if key not in known]
    told = [fault for key in new for fault in faults(".".join(key), loader.disk_migrations[key], before, names)]
    print(f"{len(known)} migrations are those of the version before, {len(new)} came after it")
    assert told == []


def _is_ours(path: str) -> bool:
    folder = Path(path)
    return folder.is_relative_to(CHECKOUT) and not {".venv", ".weir"} & {*folder.parts}  # the matrix' lie in .weir
