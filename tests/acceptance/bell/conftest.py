"""A web process on the test database, a browser, and users whose tabs show the bell."""

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import redis
from django.conf import settings
from django.contrib.auth import get_user_model
from django.db import connection
from playwright.sync_api import Browser, Page, Route, expect

from tests.acceptance import web_process
from tests.acceptance.ops import browser as browsers
from tests.acceptance.ops.browser import Tabs, Witness
from tests.acceptance.processes import Processes
from weir.notifications import reconcile
from weir.redis_link import calls

EVERY_S = 0.2
# One poll, and the time that a busy machine takes to answer it.
WITHIN_MS = 1_000 * EVERY_S + 2_000


@pytest.fixture(scope="module")
def base(
    django_db_setup: None,  # noqa: ARG001  the database is there
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[str]:
    """The address of a web process; tests without a browser are skipped."""
    if browsers.WHY_NOT:
        pytest.skip(browsers.WHY_NOT)
    log = tmp_path_factory.mktemp("web") / "web.log"
    with web_process.on_test_database(log, DJANGO_SETTINGS_MODULE="tests.acceptance.bell.bell_settings") as url:
        yield url


@pytest.fixture(scope="module")
def browser(base: str) -> Iterator[Browser]:  # noqa: ARG001  it is needed by nothing else
    """A browser. Its loop runs in this thread."""
    with pytest.MonkeyPatch.context() as patch, browsers.chromium() as running:
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
        yield running
        connection.close()  # this thread has it while its loop runs; afterwards it has another one


@pytest.fixture(scope="module")
def tabs(base: str, browser: Browser) -> Iterator[Tabs]:
    """Tabs of the browser that one test after the other uses."""
    made = Tabs(browser, base)
    yield made
    made.close()


@pytest.fixture
def processes(transactional_db: None, tmp_path: Path) -> Iterator[Processes]:  # noqa: ARG001  asked for its effect
    """Processes that are killed; Redis is empty, and trusted, before they begin."""
    redis.Redis.from_url(settings.REDIS_URL).flushdb()
    calls.forget()
    report = reconcile.run_pass()
    assert report
    assert report.trusted
    running = Processes(tmp_path, "tests.acceptance.notifications.unread_processes")
    yield running
    running.close()


@dataclass(kw_only=True)
class Bells:
    """A user, and tabs of a browser that show the user's bell."""

    user: int
    session: str
    witnesses: list[Witness] = field(default_factory=list)
    open: Callable[[], Page]

    @property
    def seen(self) -> list[str]:
        """What a tab did that no page may do."""
        return [each for witness in self.witnesses for each in witness.seen]


@pytest.fixture
def bells(tabs: Tabs, processes: Processes) -> Iterator[Bells]:  # noqa: ARG001  Redis is empty first
    """A user who is signed in; each tab asks five times a second."""
    person = get_user_model().objects.create_user("kim")
    with ExitStack() as stack:

        def opened() -> Page:
            tab = stack.enter_context(tabs.opened(made.session))
            made.witnesses.append(tab.witness)
            tab.page.route(re.compile(r"/demo/(\?.*)?$"), _hurry)
            tab.page.goto("/demo/")
            return tab.page

        made = Bells(user=person.pk, session=_session(person), open=opened)
        yield made


def _hurry(route: Route) -> None:
    answer = route.fetch()
    route.fulfill(response=answer, body=re.sub(r'every="\d+"', f'every="{EVERY_S}"', answer.text()))


def _session(person: Any) -> str:
    session = import_module(settings.SESSION_ENGINE).SessionStore()
    session["_auth_user_id"] = str(person.pk)
    session["_auth_user_backend"] = "django.contrib.auth.backends.ModelBackend"
    session["_auth_user_hash"] = person.get_session_auth_hash()
    session.create()
    return str(session.session_key)


def shows(page: Page, unread: int) -> None:
    """Expect the number, within one poll."""
    expect(page.locator("weir-bell [part=button]")).to_have_text(str(unread), timeout=WITHIN_MS)
