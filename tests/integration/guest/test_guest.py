"""Weir's apps in a project that is not Weir's: what it has of its own stays as it was."""

import pytest
from django.db import connection

from tests.run_python import run_python
from tests.servers import redis_url


@pytest.mark.usefixtures("embedded_servers")
@pytest.mark.django_db
def test_a_foreign_project_keeps_its_manners() -> None:
    """The tests are the foreign project's own (tests/guest/seen_*.py), in a process and a database of its own."""
    server = connection.settings_dict
    said = run_python(
        *("-m", "django", "test", "tests.guest", "--pattern", "seen_*.py", "--noinput", "--verbosity", "2"),
        DJANGO_SETTINGS_MODULE="tests.guest.settings",
        GUEST_DATABASE_HOST=str(server["HOST"]),
        GUEST_DATABASE_USER=server["USER"],
        GUEST_REDIS_URL=redis_url(),
    )
    assert "OK" in said
