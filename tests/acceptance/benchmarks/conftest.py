"""The Valkey and the installation that benchmarks of several processes are measured with."""

import io

import pytest
from django.core.management import call_command
from django.db import connection
from pytest_django import Settings

from tests.integration.conftest import valkey

__all__ = ["valkey"]


@pytest.fixture
def installation(valkey: object, monkeypatch: pytest.MonkeyPatch, settings: Settings) -> None:  # noqa: ARG001  it runs
    """Make the test's database that of processes which the test starts; they fetch from this machine."""
    database = connection.settings_dict
    url = f"postgresql:///{database['NAME']}?host={database['HOST']}&user={database['USER']}"
    monkeypatch.setenv("DATABASE_URL", url)
    settings.WEIR_FETCH_ALLOW_NETS = ["127.0.0.0/8"]
    monkeypatch.setenv("WEIR_FETCH_ALLOW_NETS", "127.0.0.0/8")
    call_command("sync_schedule", stdout=io.StringIO())
