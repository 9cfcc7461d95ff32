"""The servers that every test with a database shares, and how their tables are emptied."""

from collections.abc import Iterator

import pytest
from django.conf import settings
from django.db import connection
from django.test import TransactionTestCase
from pytest_django import DjangoDbBlocker

from project import embedded
from tests.home import HOME

# What `migrate` wrote stays; a table without a page has not been written to since it was truncated.
EMPTY_WRITTEN_TABLES = """
DO $$
DECLARE
    written text;
BEGIN
    SELECT string_agg(format('%I', relname), ', ') INTO written
    FROM pg_class
    WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND pg_relation_size(oid) > 0
        AND relname NOT IN ('django_migrations', 'django_content_type', 'auth_permission');
    IF written IS NOT NULL THEN
        EXECUTE 'TRUNCATE ' || written || ' CASCADE';
    END IF;
END
$$
"""


def empty_written_tables() -> None:
    with connection.cursor() as cursor:
        cursor.execute(EMPTY_WRITTEN_TABLES)


def configure(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        cursor.execute("SELECT pg_reload_conf()")


@pytest.fixture(scope="session")
def embedded_servers() -> Iterator[None]:
    """PostgreSQL and Valkey, running for the whole test session; not durable, as nothing outlives it."""
    HOME.mkdir(parents=True, exist_ok=True)
    with embedded.servers(HOME, durable=False):
        yield


@pytest.fixture(scope="session")
def django_db_modify_db_settings(embedded_servers: None) -> None:
    """Have the servers started before pytest-django creates the test database."""


@pytest.fixture(scope="session", autouse=True)
def quick_flush() -> Iterator[None]:
    """Empty only what a test wrote to: Django's flush takes 0.2 s, most of it to write its own rows again."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionTestCase, "_fixture_teardown", lambda _test_case: empty_written_tables())
        yield


@pytest.fixture(scope="module")
def shared_rows(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:  # noqa: ARG001
    """Have fixtures of a module fill tables for tests that share them; empty the tables after the last one.

    Such tests must be marked `django_db`, not `transaction=True`, so that what they write is rolled back. Autovacuum is
    off meanwhile: it would gather the statistics that some of them must do without.
    """
    with django_db_blocker.unblock():
        empty_written_tables()
        configure("ALTER SYSTEM SET autovacuum = off")
        yield
        empty_written_tables()
        configure("ALTER SYSTEM RESET autovacuum")


@pytest.fixture(scope="session", autouse=True)
def quick_passwords() -> Iterator[None]:
    """Hash passwords in a microsecond: a million rounds for the admin of each test take longer than the test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(settings, "PASSWORD_HASHERS", ["django.contrib.auth.hashers.MD5PasswordHasher"])
        yield
