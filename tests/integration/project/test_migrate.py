"""The release command may run on several hosts at once, and beside all that is at work."""

import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError, ProgrammingError, connection, connections
from pytest_django import Settings

from project.management.commands import migrate as migrate_command
from tests.integration.conftest import Eventually, StartPython
from tests.set_up import needs_migrations

RELEASE = """
from django.core.management import call_command
print("ready", flush=True)
sys.stdin.readline()
call_command("migrate", interactive=False, verbosity=0)
call_command("sync_schedule")
"""


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


SHELF = {
    "0001_initial": """
    operations = [migrations.CreateModel("Book", [("id", models.BigAutoField(primary_key=True))])]
""",
    "0002_title": """
    dependencies = [("shelf", "0001_initial")]
    operations = [migrations.AddField("book", "title", models.TextField(null=True))]
""",
    "0003_by_title": """
    atomic = False
    dependencies = [("shelf", "0002_title")]
    operations = [AddIndexConcurrently("book", models.Index(fields=["title"], name="book_by_title"))]
""",
}
HEAD = """
from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models

class Migration(migrations.Migration):
"""


def migrate(target: str, output: StringIO | None = None) -> None:
    call_command("migrate", "shelf", target, interactive=False, stdout=output or StringIO())


@pytest.fixture
def shelf(
    transactional_db: None,  # noqa: ARG001  asked for its effect
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    settings: Settings,
) -> Iterator[Path]:
    """Create an app with a table, and two more migrations; provide the folder that has it."""
    folder = tmp_path / "shelf" / "migrations"
    folder.mkdir(parents=True)
    (folder / "__init__.py").touch()
    for name, body in SHELF.items():
        (folder / f"{name}.py").write_text(HEAD + body)
    monkeypatch.syspath_prepend(tmp_path)
    settings.INSTALLED_APPS = [*settings.INSTALLED_APPS, "shelf"]
    migrate("0001")
    yield tmp_path
    migrate("zero")


@needs_migrations
def test_a_migration_that_waits_holds_nobody_up_for_long(
    shelf: Path,  # noqa: ARG001  asked for its effect
    other_connection: psycopg.Connection[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Behind an open transaction it gives up, and tries again: what queued behind it goes first."""
    monkeypatch.setattr(migrate_command, "PAUSE_S", 0.2)
    other_connection.execute("SELECT FROM shelf_book")  # held until the transaction ends
    output, waits = StringIO(), []
    with ThreadPoolExecutor(1) as pool, connection.cursor() as cursor:
        migrating = pool.submit(in_thread, migrate, "0002", output)
        with leaving(other_connection.rollback):
            cursor.execute("SET statement_timeout = '5s'")
            while output.getvalue().count("tries again") < 2 and not migrating.done():
                began_at = time.monotonic()
                cursor.execute("INSERT INTO shelf_book DEFAULT VALUES")
                waits.append(time.monotonic() - began_at)
        migrating.result(timeout=20)
        cursor.execute("SELECT title FROM shelf_book")
    print(f"\nan INSERT waited {max(waits):.2f} s at most, of {len(waits)}")
    assert 0.1 < max(waits) < 1.0


@needs_migrations
def test_an_index_that_is_built_beside_others_work_waits_for_them(
    shelf: Path,  # noqa: ARG001  asked for its effect
    other_connection: psycopg.Connection[Any],
    eventually: Eventually,
) -> None:
    """For as long as it takes, as it holds up nobody; nor does a second `migrate` that waits for the first."""
    migrate("0002")
    other_connection.execute("INSERT INTO shelf_book DEFAULT VALUES")
    with ThreadPoolExecutor(2) as pool:
        both = [pool.submit(in_thread, migrate, "0003") for _ in range(2)]
        with leaving(other_connection.rollback):
            eventually(lambda: longest_wait_s() > 1, "the index to wait for longer than others may")
        for migrating in both:
            migrating.result(timeout=20)
    with connection.cursor() as cursor:
        cursor.execute("SELECT indisvalid FROM pg_index WHERE indexrelid = 'book_by_title'::regclass")
        assert cursor.fetchall() == [(True,)]


MIGRATE_SHELF = """
from django.apps import apps
from django.conf import settings
from django.core.management import call_command
sys.path.insert(0, sys.argv[1])
apps.set_installed_apps([*settings.INSTALLED_APPS, "shelf"])
call_command("migrate", "shelf", "0003", interactive=False, verbosity=0)
"""


@needs_migrations
def test_migrate_names_the_index_that_a_killed_one_left_unfinished(
    shelf: Path,
    other_connection: psycopg.Connection[Any],
    start_python: StartPython,
    eventually: Eventually,
) -> None:
    """And no other. The statement that it prints drops the index, and the next `migrate` builds it."""
    migrate("0002")
    other_connection.execute("INSERT INTO shelf_book DEFAULT VALUES")  # an index waits for the end of this transaction
    with connection.cursor() as cursor:
        cursor.execute("SET statement_timeout = '500ms'")
        with pytest.raises(OperationalError):
            cursor.execute("CREATE INDEX CONCURRENTLY by_title ON shelf_book (title)")
    connection.close()
    killed = start_python(MIGRATE_SHELF, shelf)
    eventually(lambda: longest_wait_s() > 0, "the index to be built")
    killed.kill()
    eventually(lambda: longest_wait_s() == 0, "PostgreSQL to end what nobody waits for")
    other_connection.rollback()
    with pytest.raises(CommandError, match=r"Then migrate again\.") as refused:
        migrate("0003")
    [statement] = re.findall(r'DROP INDEX CONCURRENTLY "\w+"', str(refused.value))
    assert statement == 'DROP INDEX CONCURRENTLY "book_by_title"'
    with connection.cursor() as cursor:
        cursor.execute(statement)
    migrate("0003")


@needs_migrations
def test_a_table_that_is_there_is_no_unfinished_index(
    shelf: Path,  # noqa: ARG001  asked for its effect
) -> None:
    """Whatever else is amiss is told in PostgreSQL's words."""
    migrate("0002")
    with connection.cursor() as cursor:
        cursor.execute("CREATE INDEX book_by_title ON shelf_book (title)")
    with pytest.raises(ProgrammingError, match="already exists"):
        migrate("0003")
    with connection.cursor() as cursor:
        cursor.execute("DROP INDEX book_by_title")


@contextmanager
def leaving(call: Callable[[], None]) -> Iterator[None]:
    """Do this at the end of the block, so that nothing waits for ever where it fails."""
    try:
        yield
    finally:
        call()


def in_thread(call: Callable[..., None], *arguments: object) -> None:
    try:
        call(*arguments)
    finally:
        connections.close_all()


def longest_wait_s() -> float:
    with connection.cursor() as cursor:
        cursor.execute("""
            SELECT extract(epoch FROM max(clock_timestamp() - query_start)) FROM pg_stat_activity
            WHERE wait_event_type = 'Lock' AND query LIKE 'CREATE INDEX CONCURRENTLY%'
        """)
        return float(cursor.fetchone()[0] or 0)


@needs_migrations
def test_a_session_keeps_its_limits(shelf: None) -> None:  # noqa: ARG001  asked for its effect
    """What a migration sets for itself ends with the command."""
    migrate("0003")
    with connection.cursor() as cursor:
        names = "lock_timeout", "statement_timeout", "client_connection_check_interval"
        cursor.execute("SELECT " + ", ".join(f"current_setting('{name}')" for name in names))
        assert cursor.fetchone() == ("0", "1min", "0")


# A server that does not tell its history, as Amazon Aurora answers: its function hides PostgreSQL's own.
UNTOLD = """
from django.core.management import call_command
from django.db import connection

cursor = connection.cursor()
cursor.execute("CREATE SCHEMA service")
cursor.execute(
    "CREATE FUNCTION service.pg_current_wal_insert_lsn() RETURNS pg_lsn LANGUAGE plpgsql AS $$ BEGIN RAISE "
    "object_not_in_prerequisite_state USING MESSAGE = 'wal_level must be set to ''logical'''; END $$"
)
cursor.execute("SET search_path = service, pg_catalog, public")
try:
    call_command("migrate", interactive=False, verbosity=0)
except BaseException as error:
    print(f"{type(error).__name__}: {error}")
print(connection.introspection.table_names(), flush=True)
from project.doctor.themes import postgresql
print(postgresql.history(postgresql.told.refusal()).level, flush=True)
"""


def test_a_server_that_does_not_tell_its_history_is_refused_before_anything_is_migrated(
    empty_database: str, start_python: StartPython
) -> None:
    """By one sentence, and not by an error in the middle."""
    process = start_python(UNTOLD, environment={"WEIR_TEST_DATABASE": empty_database})
    refused, tables, level = process.communicate(timeout=60)[0].splitlines()
    assert refused.startswith(
        "CommandError: This server does not tell its history (wal_level must be set to 'logical')"
    )
    assert refused.endswith("Nothing was migrated.")
    assert (tables, level) == ("[]", "wrong")
