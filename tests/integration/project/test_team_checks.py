"""What a project sets for itself, and what it means for Weir, is said by checks: with what to write instead."""

import sys
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import pytest
from django.contrib.admin.models import LogEntry
from django.core.exceptions import ImproperlyConfigured
from django.db import connection, router
from django.db.backends.postgresql.base import DatabaseWrapper
from psycopg import IsolationLevel
from pytest_django import Settings

from project.errors import explain
from tests.integration.project.test_checks import weir_messages


@pytest.fixture(autouse=True)
def _backend_as_it_comes(settings: Settings) -> None:
    """Name the backend that settings name: Django's test runner puts another in its place."""
    settings.EMAIL_BACKEND = "weir.workers.mail.smtp.EmailBackend"


class Late:
    """A project's router, which has users and sessions read from a replica."""

    def db_for_read(self, _model: object, **_hints: object) -> str:
        return "replica"

    def db_for_write(self, _model: object, **_hints: object) -> str:
        return "default"


def test_who_is_signed_in_should_not_be_read_from_a_replica(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The warning names what is; sessions that are in no table are none."""
    monkeypatch.setattr(router, "routers", [*router.routers, Late()])
    [message] = weir_messages()
    assert message.id == "weir.W010"
    assert message.msg.startswith(
        "DATABASE_ROUTERS reads auth.User from 'replica' and auth.Permission from 'replica' and sessions.Session from "
        "'replica': while that is behind, "
    )
    settings.SESSION_ENGINE = "django.contrib.sessions.backends.cache"
    [message] = weir_messages()
    assert "sessions" not in message.msg


def test_sessions_may_have_a_table_of_the_projects(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the engine that knows it; Django's own need not be installed."""

    class SessionStore:
        @classmethod
        def get_model_class(cls) -> type[LogEntry]:
            return LogEntry

    engine = ModuleType("own_sessions")
    vars(engine)["SessionStore"] = SessionStore
    monkeypatch.setitem(sys.modules, engine.__name__, engine)
    settings.SESSION_ENGINE = engine.__name__
    settings.INSTALLED_APPS = [app for app in settings.INSTALLED_APPS if app != "django.contrib.sessions"]
    assert weir_messages() == []
    monkeypatch.setattr(router, "routers", [*router.routers, Late()])
    [message] = weir_messages()
    assert "admin.LogEntry from 'replica'" in message.msg


def test_rights_should_not_be_read_from_a_replica(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where users are not: they may be in an app of the project's own, and have their rights from Django's."""

    class OfRights(Late):
        def db_for_read(self, _model: Any, **_hints: object) -> str:
            return "replica" if _model._meta.label == "auth.Permission" else "default"

    monkeypatch.setattr(router, "routers", [*router.routers, OfRights()])
    [message] = weir_messages()
    assert message.msg.startswith("DATABASE_ROUTERS reads auth.Permission from 'replica': ")


@pytest.mark.parametrize(
    ("cache", "broker", "told"),
    [
        ({"LOCATION": "redis://h:6379/0"}, "", "REDIS_URL: cache.clear() deletes the messages that wait in the queues"),
        ({"LOCATION": ["redis://g", "redis://:word@h"]}, "", "REDIS_URL: cache.clear() deletes the messages"),
        ({"LOCATION": "redis://g;redis://h/0"}, "", "REDIS_URL: cache.clear() deletes the messages"),
        ({"LOCATION": "redis://h/0"}, "amqp://h", "REDIS_URL: cache.clear() deletes Weir's counters"),
        ({"LOCATION": "redis://i"}, ["redis://g", "redis://i"], "CELERY_BROKER_URL: cache.clear() deletes"),
        (
            {"LOCATION": "redis://i/3"},
            "rediss://i/3?ssl_cert_reqs=required",
            "CELERY_BROKER_URL: cache.clear() deletes",
        ),
        ({"LOCATION": "redis://i", "OPTIONS": {"db": 3}}, "redis://i/3", "CELERY_BROKER_URL: cache.clear() deletes"),
        ({"LOCATION": "redis://127.0.0.1"}, "redis://localhost/0", "CELERY_BROKER_URL: cache.clear() deletes"),
        ({"LOCATION": "unix:///a.sock"}, "redis+socket:///a.sock?virtual_host=0", "CELERY_BROKER_URL: cache.clear()"),
        ({"LOCATION": "unix:///a.sock?db=1"}, "redis+socket:///a.sock?virtual_host=0", None),
        ({"LOCATION": "redis://i/3"}, ["redis://g/3", "redis://i/3"], "CELERY_BROKER_URL: cache.clear() deletes"),
        ({"LOCATION": ("redis://i/3",)}, "redis://i/3", "CELERY_BROKER_URL: cache.clear() deletes"),
        ({"LOCATION": "redis://h/1"}, "", None),
        ({"LOCATION": Path("/var/cache/pages")}, "", None),
        ({"LOCATION": "redis+sentinel://h"}, "", None),
        ({"LOCATION": {"primary": "redis://h/0"}}, "", None),
        ({"LOCATION": "redis://h:6380/0"}, "", None),
        ({"LOCATION": "redis://[h"}, "", None),
        ({"LOCATION": "h:11211"}, "", None),
        ({}, "", None),
    ],
)
def test_a_cache_beside_the_queues_is_warned_of(
    cache: dict[str, Any], broker: str | list[str], told: str | None, settings: Settings
) -> None:
    """However the two are written; a database of its own, and a cache elsewhere, is in order."""
    settings.REDIS_URL = "redis://:word@h:6379/0"
    settings.SILENCED_SYSTEM_CHECKS = []
    settings.CELERY_BROKER_URL = broker or settings.REDIS_URL
    settings.CACHES = {"pages": {"BACKEND": "django.core.cache.backends.redis.RedisCache", **cache}}
    found = [(message.id, message.msg) for message in weir_messages()]
    if told is None:
        assert found == []
    else:
        [(check, sentence)] = found
        assert (check, sentence.startswith(f"CACHES['pages'] is the Redis database of {told}")) == ("weir.W011", True)


def test_what_a_pool_needs_is_said_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is not installed."""
    monkeypatch.setitem(sys.modules, "psycopg_pool", None)
    monkeypatch.setitem(connection.settings_dict["OPTIONS"], "pool", True)
    monkeypatch.setattr(DatabaseWrapper, "_connection_pools", {})
    with pytest.raises(ImproperlyConfigured) as refused:
        _ = cast("Any", connection.copy()).pool
    assert explain(refused.value) == "Error loading psycopg_pool module. Did you install psycopg[pool]?"


def test_times_without_a_zone_are_refused(settings: Settings) -> None:
    """Beat, and whatever compares a time that it has read, would end with an error."""
    settings.USE_TZ = False
    [message] = weir_messages()
    assert (message.id, message.msg.startswith("USE_TZ must be True: ")) == ("weir.E022", True)


def test_another_isolation_of_transactions_is_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """Django begins each transaction with it, whatever the session says; read committed is what Weir counts on."""
    options = connection.settings_dict["OPTIONS"]
    for level in IsolationLevel:
        monkeypatch.setitem(options, "isolation_level", level)
        found = [(message.id, message.msg.partition(":")[0]) for message in weir_messages()]
        warned = [("weir.W012", "DATABASES['default']['OPTIONS']['isolation_level'] is " + level.name)]
        assert found == (warned if level > IsolationLevel.READ_COMMITTED else [])
