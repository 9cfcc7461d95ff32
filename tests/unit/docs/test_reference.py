"""The reference pages name all that they are generated for."""

import re

from django.apps import apps
from django.core.management import get_commands

from project.checkout import CHECKOUT

REFERENCE = CHECKOUT / "docs" / "reference"


def is_ours(module: str) -> bool:
    """Tell whether the module lies in this checkout."""
    return (CHECKOUT / module.partition(".")[0]).is_dir()


def test_every_command_is_on_the_page_of_commands() -> None:
    """Each command of ours has a chapter, and what its `--help` says in it."""
    page = (REFERENCE / "commands.md").read_text()
    ours = sorted(name for name, app in get_commands().items() if is_ours(str(app)))

    assert ours
    assert sorted(re.findall(r"^## manage\.py ([a-z_]+)$", page, re.MULTILINE)) == ours
    assert sorted(re.findall(r"^```\{command\} ([a-z_]+)$", page, re.MULTILINE)) == ours


def test_every_table_is_on_the_page_of_the_data_model() -> None:
    """Each model of ours has a chapter, named after the model and its table."""
    page = (REFERENCE / "data-model.md").read_text()
    ours = [model for model in apps.get_models() if is_ours(model.__module__) and model._meta.managed]

    assert ours
    assert sorted(re.findall(r"^```\{model\} (\S+)$", page, re.MULTILINE)) == sorted(m._meta.label for m in ours)
    assert {f"{m.__name__} (`{m._meta.db_table}`)" for m in ours} <= set(re.findall(r"^## (.+)$", page, re.MULTILINE))


def test_the_api_page_names_each_object_once() -> None:
    """What the page describes stands on it once, by its full name."""
    page = (REFERENCE / "python-api.md").read_text()
    named = re.findall(r"^\.\. auto\w+:: (\S+)$", page, re.MULTILINE)

    assert named
    assert sorted(set(named)) == sorted(named)


def test_an_event_that_operators_are_told_of_is_logged() -> None:
    """Some module logs each event that the page of operations names, so that an alarm on it can go off."""
    _, _, table = (CHECKOUT / "docs" / "operations.md").read_text().partition("(field `event`):\n\n")
    rows = table.partition("\n\n")[0].splitlines()[2:]
    named = {event for row in rows for event in re.findall(r"`(\w+)`", row.split("|")[1])}
    packages = ("notifications", "project", "ratelimit", "weir", "workers")
    modules = (module for package in packages for module in (CHECKOUT / package).rglob("*.py"))
    logged = {event for module in modules for event in re.findall(r'"(\w+)"', module.read_text())}

    assert len(named) > 20
    assert named - logged == set()


def test_the_http_api_page_shows_all_scopes_and_problems() -> None:
    """Sphinx makes both tables, of what the API's modules have."""
    page = (REFERENCE / "api.md").read_text()
    assert re.findall(r"^```\{(api-\w+)\}$", page, re.MULTILINE) == ["api-scopes", "api-problems"]
