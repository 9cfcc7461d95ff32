"""A web process on the test database, rows that strangers wrote, and a browser."""

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import psycopg
import pytest
from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.hashers import PBKDF2PasswordHasher, make_password
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.db.models import Q
from playwright.sync_api import Browser

from project.logins import links
from project.processes.procfile import web_answers
from tests.acceptance.ops import browser as browsers
from tests.acceptance.ops import strangers
from tests.forked import Forked
from tests.servers import database_url, redis_url
from tests.valkeys import free_port
from tests.waiting import wait_for

HOST = "127.0.0.1"
NAME, PASSWORD = "kim", "open sesame, twice"


@dataclass(frozen=True, kw_only=True)
class Web:
    """The web process, the sessions of two users, and the rows that its pages show."""

    base: str
    operator: str
    nobody: str
    rows: strangers.Rows
    database: str

    def write(self, statement: str) -> None:
        """Change rows, beside the transaction of the test."""
        with psycopg.connect(self.database) as connected:
            connected.execute(statement.encode())


@pytest.fixture(scope="module")
def found() -> None:
    """Skip where no browser is."""
    if browsers.WHY_NOT:
        pytest.skip(browsers.WHY_NOT)


@pytest.fixture(scope="module")
def browser(web: Web) -> Iterator[Browser]:  # noqa: ARG001  it begins after all rows, and ends before they are emptied
    """A browser. Its loop runs in this thread, where pytest-django begins and ends a transaction around each test."""
    with pytest.MonkeyPatch.context() as patch, browsers.chromium() as running:
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
        yield running
        connection.close()  # which this thread has while its loop runs; afterwards it has another


@pytest.fixture(scope="module")
def web(
    found: None,  # noqa: ARG001  skips first
    shared_rows: None,  # noqa: ARG001
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Web]:
    assert connection.settings_dict["NAME"].startswith("test_")
    rows = strangers.write()
    nobody = get_user_model().objects.create_user(strangers.MARKUP[:100])
    # The web process hashes as in production, not as tests do.
    hashed = make_password(PASSWORD, hasher=PBKDF2PasswordHasher())
    person = get_user_model().objects.create(username=NAME, password=hashed)
    person.user_permissions.set(links.operator().user_permissions.all())
    port, log = free_port(), tmp_path_factory.mktemp("web") / "web.log"
    process = _start(port, log)
    try:
        wait_for(lambda: web_answers(HOST, port), 60, f"the web process: {log}")
        yield Web(
            base=f"http://{HOST}:{port}",
            operator=_session(_who_may_act()),
            nobody=_session(nobody),
            rows=rows,
            database=_database(),
        )
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()


def _start(port: int, log: Path) -> Forked:
    environment = {
        **os.environ,
        "DATABASE_URL": _database(),
        "REDIS_URL": redis_url(),
        "DJANGO_SECRET_KEY": settings.SECRET_KEY,
        "SKIP_CHECKS": "1",
    }
    environment["DJANGO_SETTINGS_MODULE"] = "project.settings"
    arguments = ["project.asgi:application", "--host", HOST, "--port", str(port), "--no-access-log"]
    with log.open("wb") as output:
        return Forked("-m", "uvicorn", *arguments, environment=environment, output=output)


def _who_may_act() -> User:
    user: User = links.operator()
    of_change = Q(codename__startswith="change_") | Q(codename="resolve_email")
    user.user_permissions.add(*Permission.objects.filter(of_change))
    return user


def _database() -> str:
    return database_url(connection.settings_dict["NAME"])


def _session(user: User) -> str:
    """Sign a user in, as by a link; returns the key of the session."""
    session = import_module(settings.SESSION_ENGINE).SessionStore()
    session["_auth_user_id"] = str(user.pk)
    session["_auth_user_backend"] = "django.contrib.auth.backends.ModelBackend"
    session["_auth_user_hash"] = user.get_session_auth_hash()
    session.create()
    return str(session.session_key)
