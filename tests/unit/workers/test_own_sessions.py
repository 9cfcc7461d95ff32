"""Sessions of a project's worker that does Weir's work: what libpq is told, by the project's settings or by Weir."""

from typing import Any

import pytest
from celery.signals import task_prerun
from django.db import DEFAULT_DB_ALIAS, connections
from django.db.backends.signals import connection_created

from weir.postgres import sessions
from weir.workers import own_sessions


def options_of_a_worker(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return the options by which a worker of Weir's queues connects, in a project that has these."""
    for signal in (connection_created, task_prerun):
        monkeypatch.setattr(signal, "connect", lambda *_arguments, **_options: None)
    monkeypatch.setitem(connections.settings, DEFAULT_DB_ALIAS, {"OPTIONS": options})
    own_sessions.begin()
    return options


def test_a_server_that_says_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in Weir's own project: else a kept session would hold its thread for a quarter of an hour."""
    assert options_of_a_worker({"sslmode": "require"}, monkeypatch) == {"sslmode": "require", **sessions.CLIENT}


def test_a_projects_own_limits_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    own = {"keepalives_idle": 60}
    assert options_of_a_worker({**own}, monkeypatch) == own
