"""The bell in a real browser: the number in each tab is the count of the rows, whatever is done, whoever is killed."""

import random
import re
from collections.abc import Callable
from typing import Any, Final

import pytest
from playwright.sync_api import Page, Route, expect

from tests.acceptance.bell.conftest import EVERY_S, Bells, shows
from tests.acceptance.notifications.unread_processes import FLUSH_STEPS, keep_flushing, keep_reconciling
from tests.acceptance.ops.browser import Tabs, show
from tests.acceptance.ops.strangers import MARKUP
from tests.acceptance.processes import Processes
from tests.waiting import wait_for
from weir.notifications import inbox
from weir.notifications.models import Notification

pytestmark = pytest.mark.django_db(transaction=True)

FOCUSED: Final = "document.activeElement.shadowRoot?.activeElement?."


def rows(user: int) -> int:
    return Notification.objects.filter(user_id=user, read_at__isnull=True).count()


def _read_some(user: int, chance: random.Random) -> None:
    shown = [row.pk for row in inbox.page(user, limit=10)]
    inbox.mark_read(user, chance.sample(shown, len(shown) // 2))


def _unread_some(user: int, _chance: random.Random) -> None:
    inbox.mark_unread(user, [row.pk for row in inbox.page(user, limit=3)])


def _delete_some(user: int, _chance: random.Random) -> None:
    Notification.objects.filter(pk__in=[row.pk for row in inbox.page(user, limit=2)]).delete()


ACTS: Final[list[Callable[[int, random.Random], object]]] = [
    lambda user, _chance: inbox.notify(user, "news", "Hello"),
    lambda user, _chance: inbox.notify_many([user, user + 1], "news", "Hello, all"),
    lambda user, chance: chance.random() < 0.3 and inbox.mark_all_read(user),
    *(_read_some, _unread_some, _delete_some),
]


def test_two_tabs_show_the_count_of_the_rows(bells: Bells, processes: Processes) -> None:
    """Within one poll of each change; web code notifies and marks, and flushers are killed at each of their steps."""
    pages, chance = [bells.open(), bells.open()], random.Random(7)  # noqa: S311  not for secrets
    processes.start(keep_reconciling, processes.stop)
    for step in (*FLUSH_STEPS, ""):
        flusher = processes.start(keep_flushing, processes.stop, step)
        for _ in range(2):
            for _ in range(chance.randrange(1, 12)):
                chance.choice(ACTS)(bells.user, chance)
            inbox.notify(bells.user, "news", "So that there is something to flush")
            expected = rows(bells.user)
            for page in pages:
                shows(page, expected)
        if step:
            processes.gone(flusher)
    processes.finish()
    assert bells.seen == []


def test_what_is_marked_in_one_tab_is_read_in_the_other(bells: Bells) -> None:
    """The number falls immediately in this tab, in the other with its next poll; the open list there follows."""
    for number in range(3):
        inbox.notify(bells.user, "news", f"Number {number}", url="/demo/")
    first, second = bells.open(), bells.open()
    for page in (first, second):
        page.locator("weir-bell [part=button]").click()
        expect(page.get_by_role("listitem")).to_have_count(3)
    first.get_by_role("button", name="Mark as read: Number 1").click()
    shows(first, 2)
    shows(second, 2)
    expect(second.get_by_role("button", name="Mark as read: Number 1")).to_have_count(0)
    second.get_by_role("button", name="Mark all as read").click()
    shows(second, 0)
    shows(first, 0)
    expect(first.get_by_role("button", name=re.compile("^Mark"))).to_have_count(0)
    inbox.notify(bells.user, "news", "Number 3")
    expect(first.get_by_role("listitem").first).to_contain_text("Number 3")
    expect(first.get_by_role("listitem")).to_have_count(4)
    assert rows(bells.user) == 1
    assert bells.seen == []


def test_a_link_marks_what_it_leads_to(bells: Bells) -> None:
    """A click goes there, and the notification is read."""
    inbox.notify(bells.user, "news", "Your order", url="/demo/?order=7")
    page = bells.open()
    page.locator("weir-bell [part=button]").click()
    page.get_by_role("link", name="Your order").click()
    page.wait_for_url("**/demo/?order=7")
    shows(page, 0)
    assert rows(bells.user) == 0


def test_by_keyboard_alone(bells: Bells) -> None:
    """Open, mark, close: the focus stays where a person expects it, and changes are announced."""
    inbox.notify(bells.user, "news", "Hello")
    page = bells.open()
    page.locator("weir-bell [part=button]").focus()
    page.keyboard.press("Enter")
    expect(page.locator("weir-bell [part=button]")).to_have_attribute("aria-expanded", "true")
    expect(page.get_by_role("listitem")).to_have_count(1)
    for _ in range(2):  # "Mark all as read", and the one of the item
        page.keyboard.press("Tab")
    assert page.evaluate(FOCUSED + "ariaLabel") == "Mark as read: Hello"
    page.keyboard.press("Enter")
    shows(page, 0)
    expect(page.get_by_role("status")).to_have_text("0 unread notifications")
    # The button has gone, but not the focus. The page's policy forbids waiting for a function in it.
    wait_for(lambda: page.evaluate(FOCUSED + "ariaLabel") == "Notifications", 10, "the focus on the panel")
    page.keyboard.press("Escape")
    assert page.evaluate(FOCUSED + "part.value") == "button"
    expect(page.locator("weir-bell [part=panel]")).to_be_hidden()
    inbox.notify(bells.user, "news", "One more")
    expect(page.get_by_role("status")).to_have_text("1 unread notification")


# Opens the list with the bell at the left, in the middle and at the right, and returns where it leaves the window.
OUTSIDE: Final = """() => {
    const bell = document.querySelector("weir-bell"), [button, panel] = bell.shadowRoot.querySelectorAll("[part]");
    const found = [];
    if (!panel.hidden) button.click();
    for (const dir of ["rtl", "ltr"]) for (const left of ["0px", "calc(50% - 2rem)", "calc(100% - 4rem)"]) {
        document.dir = dir;
        Object.assign(bell.style, { position: "fixed", top: 0, left });
        button.click();
        const box = panel.getBoundingClientRect();
        if (box.left < 0 || box.right > innerWidth || box.bottom > innerHeight || box.width < 300)
            found.push(`${dir}, bell at ${left}: ${box.left} to ${box.right} of ${innerWidth}`);
        button.click();
    }
    button.click();
    return found;
}"""
PANEL: Final = 'document.querySelector("weir-bell").shadowRoot.querySelector("[part=panel]")'


def test_the_list_is_in_the_window_wherever_the_bell_stands(bells: Bells) -> None:
    """A window that becomes smaller keeps its open list. The bell is drawn, and needs no font that has one."""
    for number in range(25):
        inbox.notify(bells.user, "news", f"Number {number}", body="What is new. " * 9)
    page = bells.open()
    page.locator("weir-bell [part=button]").click()
    expect(page.get_by_role("listitem")).to_have_count(20)
    assert page.evaluate(OUTSIDE) == []
    show(page, "light", 360)
    wait_for(
        lambda: page.evaluate(f"{PANEL}.getBoundingClientRect().right") <= 360, 10, "the list in the smaller window"
    )
    assert page.evaluate(OUTSIDE) == []
    box = page.locator("weir-bell svg").bounding_box()
    assert box
    assert box["width"] > 10
    assert bells.seen == []


def test_older_ones_are_shown_though_a_poll_overtakes_them(bells: Bells) -> None:
    """A click is not lost if the server takes longer for it than for what is asked afterwards."""
    for number in range(25):
        inbox.notify(bells.user, "news", f"Number {number}")
    page, held = bells.open(), list[Route]()
    page.locator("weir-bell [part=button]").click()
    expect(page.get_by_role("listitem")).to_have_count(20)
    page.route(re.compile(r"/page/\?before="), lambda route: held.append(route), times=1)  # noqa: PLW0108  a builtin cannot be marked
    page.get_by_role("button", name="Older").click()
    for _ in range(2):  # the first poll may have been sent before the click
        with page.expect_response("**/bell/page/"):
            pass
    [asked] = held
    asked.continue_()
    expect(page.get_by_role("listitem")).to_have_count(25)


STRANGE: Final = {
    "javascript:alert(1)": None,
    "JaVaScRiPt:alert(1)": None,
    " javascript:alert(1)": None,
    "data:text/html,<script>alert(1)</script>": None,
    "vbscript:x": None,
    "https://[": None,
    "": None,
    "/orders/7/": "/orders/7/",
    "https://example.com/": "https://example.com/",
    "//example.com/": "//example.com/",
}


def test_what_strangers_wrote_is_text(bells: Bells) -> None:
    """Their text makes no element, and no link except to a page."""
    for url in STRANGE:
        inbox.notify(bells.user, "news", MARKUP, body=MARKUP, url=url)
    page = bells.open()
    page.locator("weir-bell [part=button]").click()
    expect(page.get_by_role("listitem")).to_have_count(len(STRANGE))
    inside = """document.querySelector("weir-bell").shadowRoot.querySelectorAll"""
    links: Any = page.evaluate(f"""[...{inside}("li > :first-child")].map((each) => each.getAttribute("href"))""")
    assert links[::-1] == list(STRANGE.values())
    assert MARKUP[:40] in page.get_by_role("listitem").first.inner_text()
    made = page.evaluate(
        """document.querySelector("weir-bell").shadowRoot.querySelectorAll("img, script, iframe").length"""
    )
    assert made == 0
    assert bells.seen == []


def asks(page: Page) -> list[str]:
    """Return a list to which the page's requests of the bell are added."""
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "/bell/" in request.url else None)
    return asked


HIDE: Final = """(hidden) => { Object.defineProperty(document, "hidden", {get: () => hidden, configurable: true});
    document.dispatchEvent(new Event("visibilitychange", {bubbles: true})); }"""


def test_a_hidden_tab_does_not_ask(bells: Bells) -> None:
    """It asks immediately when it is shown again."""
    page = bells.open()
    page.evaluate(HIDE, True)
    asked = asks(page)
    page.wait_for_timeout(5_000 * EVERY_S)
    assert [url for url in asked if not url.endswith(".js")] == []
    inbox.notify(bells.user, "news", "Hello")
    with page.expect_response("**/bell/"):
        page.evaluate(HIDE, False)
    shows(page, 1)


def test_what_has_not_changed_is_not_sent(bells: Bells, processes: Processes) -> None:
    """The first poll of a page, too, is answered 304; a change by 200."""
    processes.start(keep_flushing, processes.stop)
    page = bells.open()
    for _ in range(3):
        with page.expect_response("**/bell/") as told:
            pass
        assert told.value.status == 304
    inbox.notify(bells.user, "news", "Hello")
    with page.expect_response(lambda response: response.url.endswith("/bell/") and response.status == 200):
        shows(page, 1)
    processes.finish()


def test_a_server_that_is_away(bells: Bells) -> None:
    """The bell says so, and goes on by itself."""
    page = bells.open()
    page.context.set_offline(True)
    expect(page.get_by_role("status")).to_contain_text("does not answer", timeout=15_000)
    inbox.notify(bells.user, "news", "Hello")
    page.context.set_offline(False)
    expect(page.locator("weir-bell [part=button]")).to_have_text("1", timeout=20_000)
    expect(page.locator("weir-bell [part=button]")).to_have_attribute("title", "")


def test_who_is_signed_out_is_told_so(bells: Bells) -> None:
    """Afterwards the bell asks no more."""
    page = bells.open()
    page.context.clear_cookies()
    expect(page.get_by_role("status")).to_contain_text("You are signed out", timeout=15_000)
    asked = asks(page)
    page.wait_for_timeout(5_000 * EVERY_S)
    assert asked == []


def test_without_script_the_number_is_there(bells: Bells, tabs: Tabs) -> None:
    """As it was when the page was made."""
    inbox.notify(bells.user, "news", "Hello")
    with tabs.opened(bells.session, script=False) as tab:
        tab.page.goto("/demo/")
        expect(tab.page.locator("weir-bell")).to_have_text("1 unread")
        expect(tab.page.locator("weir-bell svg")).to_be_visible()
