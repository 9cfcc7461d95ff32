"""The tutorial's app, by its own tests, as its reader runs them."""

import os

import pytest

from project.checkout import CHECKOUT
from tests.run_python import run_python
from tests.servers import database_url

EXAMPLES = CHECKOUT / "examples"


def manage(*arguments: str, **variables: str) -> str:
    """Run a command of the project with the app in it, and these variables; returns what it writes."""
    paths = os.pathsep.join(map(str, (EXAMPLES, CHECKOUT)))
    return run_python(
        str(CHECKOUT / "manage.py"),
        *arguments,
        folder=EXAMPLES,
        **{"DJANGO_SETTINGS_MODULE": "settings", "PYTHONPATH": paths, **variables},
    )


@pytest.mark.usefixtures("embedded_servers")
def test_the_shop_passes_its_own_tests() -> None:
    """On the servers of this test run, in a database of its own; each test of the tutorial is run."""
    variables = {"DATABASE_URL": database_url("shop"), "DJANGO_SECRET_KEY": "of a test"}
    written = (EXAMPLES / "shop" / "tests.py").read_text().count("def test_")
    assert f"Ran {written} tests" in manage("test", "shop", "--no-input", **variables)


@pytest.mark.usefixtures("embedded_servers")
def test_the_migration_is_that_of_the_model() -> None:
    """`makemigrations` finds nothing to add to what the reader's own makes."""
    assert "No changes detected" in manage("makemigrations", "shop", "--check", "--dry-run")
