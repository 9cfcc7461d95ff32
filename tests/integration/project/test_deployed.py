"""The variables that "Harden it" lists, as a whole."""

import os
import re
import secrets
import subprocess

import pytest
from django.db import connection

from project.checkout import CHECKOUT
from tests.run_python import forked
from tests.servers import database_url, redis_url


def documented() -> dict[str, str]:
    """Return the variables of the page."""
    page = (CHECKOUT / "docs" / "how-to" / "harden.md").read_text()
    [block] = re.findall(r"^```ini\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    return dict(line.split("=", 1) for line in block.splitlines())


def check(**variables: str) -> subprocess.CompletedProcess[str]:
    """Run the check that the page names, with these variables and no others of Weir's."""
    ours = re.compile("WEIR_|DJANGO_|DATABASE_URL|REDIS_URL|CELERY_|EMAIL_")
    inherited = {name: value for name, value in os.environ.items() if not ours.match(name)}
    words = ("check", "--deploy", "--fail-level", "WARNING", "--database", "default")
    return forked("manage.py", *words, environment={**inherited, **variables})


@pytest.fixture
def documented_variables(db: None) -> dict[str, str]:  # noqa: ARG001  asked for its effect
    """Return them, with the servers of the tests, and a key of one's own."""
    servers = {"DATABASE_URL": database_url(str(connection.settings_dict["NAME"])), "REDIS_URL": redis_url()}
    return documented() | servers | {"DJANGO_SECRET_KEY": secrets.token_urlsafe(50)}


def test_the_documented_variables_leave_no_finding(documented_variables: dict[str, str]) -> None:
    """`check --deploy` is silent, and leaves out only the two checks that settings.py names."""
    found = check(**documented_variables)

    assert (found.stdout.strip(), found.returncode) == ("System check identified no issues (2 silenced).", 0)
    assert found.stderr == ""


def test_the_documented_key_opens_nothing(documented_variables: dict[str, str]) -> None:
    """Everybody can read it, so no process starts with it."""
    found = check(**documented_variables | {"DJANGO_SECRET_KEY": documented()["DJANGO_SECRET_KEY"]})

    assert found.returncode == 1
    assert "DJANGO_SECRET_KEY must be a long random text" in found.stderr


def test_each_of_them_is_needed(documented_variables: dict[str, str]) -> None:
    """Without those that have a default, the check finds what is missing, and fails."""
    for name in ("WEIR_TLS_PROXIES", "WEIR_HSTS_MAX_AGE", "WEIR_FETCH_USER_AGENT"):
        del documented_variables[name]

    found = check(**documented_variables)

    assert found.returncode == 1
    assert re.findall(r"\((\w+\.W\d+)\)", found.stderr) == [
        *("security.W004", "security.W008", "security.W012", "security.W016", "weir.W002"),
    ]
