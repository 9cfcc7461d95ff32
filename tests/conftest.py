"""The servers that every test with a database shares."""

from collections.abc import Iterator

import pytest

from project import embedded
from tests.home import HOME


@pytest.fixture(scope="session")
def embedded_servers() -> Iterator[None]:
    """PostgreSQL and Valkey, running for the whole test session; not durable, as nothing outlives it."""
    HOME.mkdir(parents=True, exist_ok=True)
    with embedded.servers(HOME, durable=False):
        yield


@pytest.fixture(scope="session")
def django_db_modify_db_settings(embedded_servers: None) -> None:
    """Have the servers started before pytest-django creates the test database."""
