"""The columns that PostgreSQL computes: checked without it, and described where a project has all fields say less."""

from typing import Any

import pytest
from django.apps import apps
from django.db import connection, models
from django.db.migrations.autodetector import MigrationAutodetector
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.state import ProjectState

from weir.ratelimit.models import Site


@pytest.fixture
def say_less(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out of migrations what no database sees, as `makemigrations` of pretix and pretalx does."""
    whole = models.Field.deconstruct

    def deconstruct(field: Any) -> Any:
        name, path, arguments, options = whole(field)
        unseen = {"verbose_name", "help_text", "validators"}
        if not isinstance(field, models.AutoField | models.BinaryField | models.DateField | models.TimeField):
            unseen |= {"blank", "editable"}
        return name, path, arguments, {option: value for option, value in options.items() if option not in unseen}

    monkeypatch.setattr(models.Field, "deconstruct", deconstruct)


@pytest.mark.usefixtures("say_less")
def test_migrations_are_complete_where_fields_say_less() -> None:
    """A KeyError would end the project's `makemigrations`, whatever it is asked to make."""
    now = ProjectState.from_apps(apps)
    migrated = MigrationLoader(None).project_state()
    changes = MigrationAutodetector(migrated, now).changes(graph=MigrationLoader(None).graph)
    assert {label for label in changes if label.startswith("weir_")} == set()


def test_no_server_is_asked_whether_it_has_such_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Django 6.1 asks for its version, and `manage.py check` would end with a traceback where it is away."""

    def asked(_features: object) -> bool:
        raise AssertionError("The server is asked.")

    monkeypatch.setattr(type(connection.features), "supports_virtual_generated_columns", property(asked))
    assert Site.check(databases=["default"]) == []
