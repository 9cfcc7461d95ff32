"""Pages that are kept up to date, in a real browser: what changes, what stays, and when it is said that it ended."""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

import pytest
from playwright.sync_api import Page, Route, expect

from tests.acceptance.ops.browser import Tabs
from tests.acceptance.ops.conftest import Web
from tests.waiting import in_time

pytestmark = pytest.mark.django_db

EVERY_MS = 200
APPEARS_WITHIN_S = 4.0  # a snapshot that cost less than 0.1 s is good for two seconds
NEW_PROCESS = """
INSERT INTO weir_processes_process (kind, name, host, pid, version, holds)
SELECT kind, '{name}', host, 2, version, holds
FROM weir_processes_process LIMIT 1
"""


@contextmanager
def opened(web: Web, tabs: Tabs, path: str, idle_s: int = 1800) -> Iterator[Page]:
    """A page that looks for changes five times a second, and stops after `idle_s` without use."""

    def hurry(route: Route) -> None:
        answer = route.fetch()
        quick = re.sub(r'data-every="\d+"', f'data-every="{EVERY_MS / 1_000}" data-idle="{idle_s}"', answer.text())
        route.fulfill(response=answer, body=quick)

    with tabs.opened(web.operator) as tab:
        page = tab.page
        page.route(lambda _url: True, lambda route: hurry(route) if is_whole(route) else route.continue_())
        page.goto(path)
        expect(page.locator("#live-switch")).to_be_visible()
        yield page


def is_whole(route: Route) -> bool:
    return route.request.resource_type == "document"


def state(page: Page, text: str) -> None:
    expect(page.locator("#live-state")).to_contain_text(text, timeout=15_000)


def test_changed_row_appears(web: Web, tabs: Tabs) -> None:
    """What changes in the database is shown without a reload, within two looks of two seconds."""
    name = f"new.{uuid4()}@host"
    with opened(web, tabs, "/") as page:
        began_at = time.monotonic()
        web.write(NEW_PROCESS.format(name=name))
        expect(page.get_by_text(name).first).to_be_visible(timeout=20_000)
        in_time(time.monotonic() - began_at < APPEARS_WITHIN_S, "the row appeared late")


def test_what_was_typed_stays(web: Web, tabs: Tabs) -> None:
    """A field keeps what was typed, and the focus, while the list around it changes."""
    with opened(web, tabs, "/sites/") as page:
        page.focus("[name=search]")
        page.keyboard.type("half a na")
        web.write("UPDATE weir_ratelimit_site SET backoff_level = 7 WHERE name = 'site.example'")
        expect(page.get_by_role("cell", name="7", exact=True)).to_be_visible(timeout=10_000)
        assert page.input_value("[name=search]") == "half a na"
        assert page.evaluate("document.activeElement.name") == "search"


def test_hidden_page_does_not_ask(web: Web, tabs: Tabs) -> None:
    """A page in a hidden tab asks for nothing; it asks immediately when it is shown again."""
    with opened(web, tabs, "/unread/") as page:
        page.evaluate(
            "() => { window.asked = 0; const ask = window.fetch;"
            " window.fetch = (...arguments) => { window.asked += 1; return ask(...arguments); };"
            " window.away = true; Object.defineProperty(document, 'hidden', {get: () => window.away});"
            " document.dispatchEvent(new Event('visibilitychange')); }"
        )
        page.wait_for_timeout(5 * EVERY_MS)
        assert page.evaluate("window.asked") == 0
        with page.expect_request(re.compile("unread"), timeout=3_000):
            page.evaluate("() => { window.away = false; document.dispatchEvent(new Event('visibilitychange')); }")


def test_page_opened_in_a_hidden_tab_does_not_ask(web: Web, tabs: Tabs) -> None:
    """A page that was never shown asks for nothing."""
    with opened(web, tabs, "/unread/") as page:
        page.add_init_script("Object.defineProperty(document, 'hidden', {get: () => true});")
        page.reload()
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.wait_for_timeout(5 * EVERY_MS)
        assert not [url for url in asked if "unread" in url]
        page.close()  # the script stays with it


def test_page_that_nobody_uses_stops(web: Web, tabs: Tabs) -> None:
    """After a time without use the page stops, says so, and starts again by its button."""
    with opened(web, tabs, "/unread/", idle_s=2) as page:
        state(page, "Updates have stopped")
        page.click("#live-switch")
        state(page, "Updates every")


def test_signed_out_page_says_so(web: Web, tabs: Tabs) -> None:
    """A page whose session has ended says so, and asks for nothing more."""
    with opened(web, tabs, "/unread/") as page:
        page.context.clear_cookies()
        state(page, "You are signed out")


def test_server_that_is_away(web: Web, tabs: Tabs) -> None:
    """A page says that the server does not answer, and goes on by itself when it does again."""
    with opened(web, tabs, "/unread/") as page:
        page.context.set_offline(True)
        state(page, "The server does not answer")
        page.context.set_offline(False)
        state(page, "Updates every")


def test_what_has_not_changed_is_not_sent(web: Web, tabs: Tabs) -> None:
    """A poll of a page on which nothing changes is answered 304, without a body, and nothing is touched."""
    with opened(web, tabs, "/fetches/?state=cancelled") as page:
        page.evaluate(
            "new MutationObserver(() => { window.touched = true; })"
            ".observe(document.getElementById('live'), {subtree: true, childList: true, characterData: true})"
        )
        for _ in range(2):
            with page.expect_response(lambda response: "x-weir-live" in response.request.headers) as looked:
                pass
            assert looked.value.status == 304
        assert not page.evaluate("window.touched")
