"""Which database Weir's tables can be in, checks say: before a statement is executed, with what to write instead."""

import os
from pathlib import Path
from typing import Any

import pytest
from django.conf import LazySettings
from django.core.checks import run_checks
from django.db import connection, connections

from project.checkout import CHECKOUT
from tests.forked import Forked
from tests.integration.project.test_checks import weir_messages
from tests.servers import database_url, redis_url

OTHER = """
from project.settings import *
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}
"""
NEEDS = "Weir needs PostgreSQL 15 or newer"


@pytest.fixture(autouse=True)
def _backend_as_it_comes(settings: LazySettings) -> None:
    """Name the backend that settings name: Django's test runner puts another in its place."""
    settings.EMAIL_BACKEND = "weir.workers.mail.smtp.EmailBackend"


@pytest.mark.usefixtures("embedded_servers")
@pytest.mark.parametrize(
    ("command", "of_django"),
    [
        ("check", True),
        ("check --database default", True),
        ("migrate", True),
        ("migrate weir_mail", True),
        ("migrate", False),
        ("migrate weir_mail", False),
    ],
)
def test_another_make_is_refused_by_one_sentence(command: str, of_django: bool, tmp_path: Path) -> None:
    """Also by Django's own `migrate`, which a project without Weir's has."""
    text = OTHER + ("INSTALLED_APPS.remove('project')\n" if of_django else "")
    (tmp_path / "other_make.py").write_text(text)
    variables = {
        "PYTHONPATH": f"{tmp_path}:{CHECKOUT}",
        "DATABASE_URL": database_url("never_asked"),
        "REDIS_URL": redis_url(),
        "DJANGO_SECRET_KEY": "of a test",
        "DJANGO_SETTINGS_MODULE": "other_make",
    }
    with (tmp_path / "said").open("wb") as output:
        process = Forked("-m", "django", *command.split(), environment={**os.environ, **variables}, output=output)
    assert process.wait() == 1
    said = (tmp_path / "said").read_text()
    assert f"(weir.E032) {NEEDS}, but DATABASES['default'] is SQLite." in said
    assert 'Set its ENGINE to "django.db.backends.postgresql"' in said
    assert "Traceback" not in said
    assert "OperationalError" not in said


@pytest.mark.django_db
def test_an_old_server_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the checks that may ask it."""
    monkeypatch.setattr(connection, "pg_version", 140_013)
    told = {message.id: message.msg for message in run_checks(databases=["default"]) if "E03" in str(message.id)}
    assert told == {"weir.E033": f"{NEEDS}, but the server of DATABASES['default'] is PostgreSQL 14."}
    assert weir_messages() == []


class Elsewhere:
    """A project's router, which would have a database of its own for Weir."""

    def db_for_write(self, model: Any, **_hints: Any) -> str | None:
        return "weir" if model._meta.app_label.startswith("weir_") else None


class Migrates:
    """A router that decides nothing about rows."""

    def allow_migrate(self, _db: str, _app_label: str, **_hints: Any) -> None: ...


def test_a_router_that_sends_weirs_tables_elsewhere_is_told_that_they_stay(settings: LazySettings) -> None:
    """One that says nothing of them, or names `default`, is not."""
    settings.DATABASE_ROUTERS = [Migrates(), Elsewhere()]
    [message] = weir_messages()
    assert message.id == "weir.W031"
    assert message.msg.startswith("DATABASE_ROUTERS sends Weir's tables to 'weir': they stay in 'default'")
    assert "weir" not in connections


class BeatElsewhere:
    """A project's router, which has django-celery-beat's schedule in a database of its own."""

    def db_for_write(self, model: Any, **_hints: Any) -> str | None:
        return "jobs" if model._meta.app_label == "django_celery_beat" else None


def test_a_schedule_that_beat_would_not_read_is_refused(settings: LazySettings) -> None:
    """A project that had it elsewhere would have none of its tasks sent, and hear of it from nobody."""
    settings.DATABASE_ROUTERS = [BeatElsewhere()]
    [message] = weir_messages()
    assert message.id == "weir.E034"
    assert "sends the tables of django_celery_beat to 'jobs'" in message.msg
