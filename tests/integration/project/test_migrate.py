"""The release command may run on several hosts at once."""

from collections.abc import Iterator

import pytest
from django.db import connection

from tests.integration.conftest import StartPython

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
