"""A web process on the test database, rows that strangers wrote, and a browser."""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module

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
from tests.acceptance import web_process
from tests.acceptance.ops import browser as browsers
from tests.acceptance.ops import strangers
from tests.acceptance.ops.browser import Tabs
from tests.servers import database_url

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
        """Change rows, outside the transaction of the test."""
        with psycopg.connect(self.database) as connected:
            connected.execute(statement.encode())


@pytest.fixture(scope="module")
def found() -> None:
    """Skip if there is no browser."""
    if browsers.WHY_NOT:
        pytest.skip(browsers.WHY_NOT)


@pytest.fixture(scope="module")
def browser(web: Web) -> Iterator[Browser]:  # noqa: ARG001  it begins after all rows, and ends before they are emptied
    """A browser. Its loop runs in this thread, where pytest-django begins and ends a transaction around each test."""
    with pytest.MonkeyPatch.context() as patch, browsers.chromium() as running:
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
        yield running
        connection.close()  # this thread has it while its loop runs; afterwards it has another one


@pytest.fixture(scope="module")
def tabs(web: Web, browser: Browser) -> Iterator[Tabs]:
    """Tabs of the browser, which show the pages of the web process."""
    made = Tabs(browser, web.base)
    yield made
    made.close()


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
    log = tmp_path_factory.mktemp("web") / "web.log"
    with web_process.on_test_database(log, DJANGO_SETTINGS_MODULE="project.settings") as base:
        yield Web(
            base=base,
            operator=session_of(who_may_act()),
            nobody=session_of(nobody),
            rows=rows,
            database=database_url(connection.settings_dict["NAME"]),
        )


def who_may_act() -> User:
    user: User = links.operator()
    of_change = Q(codename__startswith="change_") | Q(
        codename__in=["resolve_email", "view_email", "resolve_effect", "view_effect"]
    )
    user.user_permissions.add(*Permission.objects.filter(of_change))
    return user


def session_of(user: User) -> str:
    """Sign a user in, as by a link; returns the key of the session."""
    session = import_module(settings.SESSION_ENGINE).SessionStore()
    session["_auth_user_id"] = str(user.pk)
    session["_auth_user_backend"] = "django.contrib.auth.backends.ModelBackend"
    session["_auth_user_hash"] = user.get_session_auth_hash()
    session.create()
    return str(session.session_key)
