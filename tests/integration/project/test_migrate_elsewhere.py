"""Weir's tables are made by way of `default`: a second name of the same database is refused, as no other one is."""

import os
from pathlib import Path

import psycopg
import pytest

from tests.run_python import forked
from tests.servers import database_url, redis_url

SETTINGS = """
from project.settings import *
DATABASES["direct"] = {**DATABASES["default"]}
"""


@pytest.mark.usefixtures("embedded_servers")
def test_a_second_name_of_the_database_is_refused(empty_database: str, tmp_path: Path) -> None:
    """Such as that of a way past a pooler. Django would note Weir's migrations as applied there, and make no table."""
    (tmp_path / "team_settings.py").write_text(SETTINGS)
    variables = {
        "DATABASE_URL": database_url(empty_database),
        "REDIS_URL": redis_url(),
        "DJANGO_SECRET_KEY": "of a test",
        "DJANGO_SETTINGS_MODULE": "team_settings",
        "PYTHONPATH": str(tmp_path),
    }
    done = forked("manage.py", "migrate", "--database=direct", "--no-input", environment={**os.environ, **variables})
    assert done.returncode == 1, done.stdout
    assert (
        "DATABASES['direct'] is the database of DATABASES['default'], by which Weir's tables are made: for this "
        "command, have DATABASE_URL name what 'direct' names, and leave --database out. Nothing was migrated."
    ) in done.stderr
    with psycopg.connect(database_url(empty_database)) as database:
        assert database.execute("SELECT to_regclass('django_migrations')").fetchone() == (None,)
