"""What Weir makes in a project begins with `weir`: two apps of a project cannot have one name for the same thing."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.apps import AppConfig, apps
from django.contrib.auth.models import User
from django.db import models
from django.db.migrations import RunSQL
from django.db.migrations.loader import MigrationLoader

from project.checkout import CHECKOUT
from tests.cases import for_each
from weir.notifications import user_keys
from weir.postgres.weir_apps import WeirApp

MOST_BYTES = 63  # of a name in PostgreSQL
CREATED = re.compile(r"CREATE (?:FUNCTION|TRIGGER|INDEX|TABLE|TYPE|SEQUENCE|VIEW) (\w+)")


def ours() -> list[AppConfig]:
    return [config for config in apps.get_app_configs() if isinstance(config, WeirApp)]


def test_each_app_has_a_label_of_its_own() -> None:
    """So that `api`, `mail`, `notifications` and `orders` are free; and keys of 64 bits, whatever a project's are."""
    rooms = ("notifications", "project", "ratelimit", "weir", "workers")
    known = [config for config in apps.get_app_configs() if config.name.partition(".")[0] in rooms]
    assert {config.name for config in known} == {config.name for config in ours()}
    assert {config.label for config in ours() if not config.label.startswith("weir_")} == set()
    # Of the class: an instance without one has that of the settings, which are these here.
    assert {type(config).default_auto_field for config in ours()} == {"django.db.models.BigAutoField"}
    assert all(config.verbose_name.startswith("Weir: ") for config in ours())


def names() -> Iterator[str]:
    """Yield what a schema of PostgreSQL knows of Weir's, but for what takes its name from a table."""
    for config in ours():
        for model in config.get_models():
            options = model._meta
            yield options.db_table
            yield from (index.name for index in options.indexes)
            yield from (constraint.name for constraint in options.constraints)
    labels = {config.label for config in ours()}
    for (label, _), migration in MigrationLoader(None).disk_migrations.items():
        if label in labels:
            for operation in migration.operations:
                if isinstance(operation, RunSQL):
                    yield from CREATED.findall(str(operation.sql))


def test_what_postgresql_knows_of_weirs_has_names_of_its_own() -> None:
    """Tables, indexes, constraints, functions and triggers; none is cut off by PostgreSQL."""
    found = list(names())
    assert "weir_timeline_is_known" in found
    assert [name for name in found if not name.startswith("weir_") or len(name.encode()) > MOST_BYTES] == []
    assert len(set(found)) == len(found)


def test_a_projects_models_get_no_attribute_that_may_be_theirs() -> None:
    """A user has `notifications` of another package, and its own `link_set`."""
    labels = {config.label for config in ours()}
    fields = [field for config in ours() for model in config.get_models() for field in model._meta.get_fields()]
    keys: list[Any] = [field for field in [*fields, user_keys.foreign_key()] if isinstance(field, models.ForeignKey)]
    theirs = [key for key in keys if getattr(key.related_model, "_meta", User._meta).app_label not in labels]
    names = {key.remote_field.related_name for key in theirs}
    assert names == {"+", "weir_notifications"}


@for_each("kind", ["templates", "static"])
def test_files_lie_in_folders_of_weirs(kind: str) -> None:
    """A project's own `ops/base.html` is not Weir's, and Weir's no page for what a project does not find."""
    folders = [Path(config.path, kind) for config in ours() if config.name.startswith("weir.")]
    paths = [path.relative_to(folder) for folder in folders for path in folder.rglob("*.*")]
    assert paths
    assert {path for path in paths if path.parts[0] != "weir"} == set()


def test_tag_libraries_have_names_of_their_own() -> None:
    """Of two that are called the same, a template gets the last."""
    found = [path.stem for config in ours() for path in Path(config.path, "templatetags").glob("[!_]*.py")]
    assert sorted(found) == ["weir_acts", "weir_bell", "weir_ops"]


def test_urls_have_namespaces_of_their_own() -> None:
    """`reverse("ops:...")` is a project's."""
    found: list[Any] = []
    for path in [*CHECKOUT.glob("weir/**/*.py"), *CHECKOUT.glob("notifications/**/*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Assign(targets=[ast.Name(id="app_name")], value=ast.Constant(value=name)):
                    found.append(name)
                case ast.keyword(arg="urls_namespace", value=ast.Constant(value=name)):
                    found.append(name)
    assert sorted({*found}) == ["weir_api", "weir_api:v1", "weir_bell", "weir_ops"]
