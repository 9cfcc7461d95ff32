"""The release command may run on several hosts at once."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from django.db import connection

from project.management.commands import migrate
from tests.integration.conftest import Eventually, StartPython

RELEASE = """
from django.core.management import call_command
print("ready", flush=True)
sys.stdin.readline()
call_command("migrate", interactive=False, verbosity=0)
call_command("sync_schedule")
"""


@pytest.fixture
def empty_database(transactional_db: None) -> Iterator[str]:  # noqa: ARG001  asked for its effect
    """Return the name of a database without tables."""
    name = f"{connection.settings_dict['NAME']}_empty"
    with connection.cursor() as cursor:
        cursor.execute(f"DROP DATABASE IF EXISTS {name}")
        cursor.execute(f"CREATE DATABASE {name}")
    yield name
    with connection.cursor() as cursor:
        cursor.execute(f"DROP DATABASE {name} WITH (FORCE)")


def test_two_that_release_at_once_both_succeed(empty_database: str, start_python: StartPython) -> None:
    """One migrates; the other waits for it, and finds nothing left to do."""
    environment = {"WEIR_TEST_DATABASE": empty_database}
    both = [start_python(RELEASE, environment=environment) for _ in range(2)]
    for process in both:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == "ready\n"
    for process in both:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    said = [process.communicate(timeout=120)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert sorted(", 0 created," in one for one in said) == [False, True]


def test_one_that_waits_does_not_hold_up_the_one_that_migrates(
    start_python: StartPython, other_connection: psycopg.Connection[Any], eventually: Eventually
) -> None:
    """CREATE INDEX CONCURRENTLY waits for all statements that run: one that waits for the lock would never end."""
    other_connection.autocommit = True
    other_connection.execute("SELECT pg_advisory_lock(%s)", [migrate.LOCK])
    waiting = start_python("from django.core.management import call_command\ncall_command('migrate', verbosity=0)")
    others = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%advisory_lock%' AND pid <> pg_backend_pid()"
    eventually(lambda: other_connection.execute(others).fetchall() != [(0,)], "the second one to wait")
    other_connection.execute("SET statement_timeout = '3s'")
    try:
        other_connection.execute("CREATE INDEX CONCURRENTLY made_meanwhile ON workers_heartbeat (queue)")
    finally:
        other_connection.execute("DROP INDEX IF EXISTS made_meanwhile")
        other_connection.execute("SELECT pg_advisory_unlock(%s)", [migrate.LOCK])
    waiting.communicate(timeout=30)
    assert waiting.returncode == 0
