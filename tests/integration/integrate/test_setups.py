"""Weir in a project with ordinary settings of its own: a team's tests pass with each set-up, and checks know it."""

import os
import pkgutil
import re
from pathlib import Path

import pytest

from tests import setups
from tests.run_python import run_forked
from tests.servers import database_url, redis_url
from tests.setups import team_tests

# The six others of tests/setups are in of_requests and of_servers, three in each.
SETUPS = ["project.settings", "tests.setups.of_requests", "tests.setups.of_servers"]
TESTS = len(re.findall(r"def test_", Path(team_tests.__file__).read_text()))
SILENCED = ["tests.setups.of_servers"]  # a warning, of cache_in_redis

pytestmark = pytest.mark.usefixtures("embedded_servers")


def run(*arguments: str, setup: str) -> str:
    """Run Python with the settings of the set-up; returns what it writes."""
    return run_forked(
        *arguments,
        DATABASE_URL=database_url(f"team_{setup.rpartition('.')[2]}"),
        REDIS_URL=redis_url(),
        DJANGO_SECRET_KEY="of a test",  # noqa: S106  no secret
        DJANGO_SETTINGS_MODULE=setup,
    )


@pytest.mark.parametrize("setup", SETUPS)
def test_the_tests_of_a_team_pass(setup: str) -> None:
    """In two processes, each with a copy of the database; checks warn of what the project has not silenced only."""
    said = run("manage.py", "test", team_tests.__name__, "--no-input", "--parallel=2", setup=setup)
    assert f"Ran {TESTS} tests" in said
    assert re.findall(r"weir\.[EW]\d+", said) == []
    assert f"({SILENCED.count(setup)} silenced)" in said


def test_they_pass_in_one_process_without_migrations() -> None:
    """On the database itself."""
    said = run("manage.py", "test", team_tests.__name__, "--no-input", setup="tests.setups.no_migrations")
    assert f"Ran {TESTS} tests" in said
    assert re.findall(r"weir\.[EW]\d+", said) == []


def test_each_set_up_is_one_of_those_that_are_run() -> None:
    """By itself, or as a module that one of them takes over."""
    named = {name for _, name, _ in pkgutil.iter_modules(setups.__path__)} - {"team_tests", "no_migrations"}
    texts = {name: (Path(setups.__path__[0]) / f"{name}.py").read_text() for name in ("of_requests", "of_servers")}
    assert {*re.findall(r"from tests\.setups\.(\w+) import \*", "".join(texts.values())), *texts} == named


def test_they_pass_by_pytest_without_migrations() -> None:
    """Which pytest-django does in another way than Django."""
    alone = ("-p", "no:cacheprovider", "-c", os.devnull, "--rootdir=.", "--noconftest")
    said = run("-m", "pytest", *alone, "--nomigrations", team_tests.__file__, setup="project.settings")
    assert f"{TESTS} passed" in said


def test_no_setting_asks_for_a_migration_of_weirs() -> None:
    """The keys of Weir's tables are those that its migrations made."""
    assert "No changes detected" in run(
        "manage.py", "makemigrations", "--check", "--dry-run", setup="tests.setups.auto_field"
    )


def test_another_database_gets_no_table_of_weirs() -> None:
    """And is migrated as by Django."""
    said = run("manage.py", "migrate", "--database=legacy", setup="tests.setups.second_database")
    assert "ratelimit.0001_initial... OK" in said  # as Django has it: applied, and nothing made
    assert "auth.0001_initial... OK" in said
