"""Loaded before Django's settings: the tests have embedded servers of their own, in `.weir/test`."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

HOME = Path(__file__).resolve().parent.parent / ".weir" / "test"
os.environ["WEIR_HOME"] = str(HOME)
for variable in ("DATABASE_URL", "REDIS_URL", "CELERY_BROKER_URL"):
    os.environ.pop(variable, None)


@pytest.fixture(scope="session")
def embedded_servers() -> Iterator[None]:
    """PostgreSQL and Valkey, running for the whole test session; not durable, as nothing outlives it."""
    from project import embedded  # noqa: PLC0415  after the environment is set

    with embedded.servers(HOME, durable=False):
        yield


@pytest.fixture(scope="session")
def django_db_modify_db_settings(embedded_servers: None) -> None:
    """Have the servers started before pytest-django creates the test database."""
