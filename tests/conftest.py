"""The servers that every test with a database shares, and how their tables are emptied."""

from collections.abc import Iterator

import pytest
from django.conf import settings
from django.db import connection
from django.test import TransactionTestCase

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

    def empty_written_tables(_test_case: TransactionTestCase) -> None:
        with connection.cursor() as cursor:
            cursor.execute(EMPTY_WRITTEN_TABLES)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionTestCase, "_fixture_teardown", empty_written_tables)
        yield


@pytest.fixture(scope="session", autouse=True)
def quick_passwords() -> Iterator[None]:
    """Hash passwords in a microsecond: a million rounds for the admin of each test take longer than the test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(settings, "PASSWORD_HASHERS", ["django.contrib.auth.hashers.MD5PasswordHasher"])
        yield
