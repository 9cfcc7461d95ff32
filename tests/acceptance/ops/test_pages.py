"""The operators' pages in a real browser: narrow and wide, light and dark, with and without script, by keyboard alone.

All that they show was written by strangers.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final
from urllib.request import Request, urlopen

import pytest
from playwright.sync_api import Page, Route, expect

from tests.acceptance.ops.browser import FIRST_LOOK, LOOKS, Tabs, axe, show, too_wide
from tests.acceptance.ops.conftest import NAME, PASSWORD, Web
from tests.acceptance.ops.strangers import MARKUP, SITE
from tests.waiting import wait_for
from weir.ops.urls import urlpatterns

pytestmark = pytest.mark.django_db

MOST_BYTES: Final = 150_000
MOST_SCRIPT_BYTES: Final = 15_000
PAGES: Final = {
    "overview": "/",
    "sites": "/sites/",
    "site": f"/sites/{SITE}/?add=500&rate=5/s",
    "fetches": "/fetches/",
    "fetch": "/fetches/{failed}/",
    "fetch, queued": "/fetches/{queued}/",
    "fetch, done": "/fetches/{done}/",
    "batches": "/batches/",
    "batch": "/batches/{batch}/",
    "watches": "/watches/",
    "watch": "/watches/{watch}/",
    "webhooks": "/webhooks/",
    "endpoint": "/webhooks/{endpoint}/",
    "unread": "/unread/",
    "emails": "/emails/?state=pending",
    "email": "/emails/{email}/",
    "email, rendered": "/emails/{rendered}/",
    "effects": "/effects/?state=pending",
    "effect": "/effects/{effect}/",
    "audit": "/audit/",
    "search": "/search/?q=%3Cscript",
    "search, nothing": "/search/?q=nobody%3Cscript%3E",
    "site-act": f"/sites/{SITE}/set/",
    "fetch-act": "/fetches/{queued}/cancel/",
    "batch-act": "/batches/{batch}/cancel/",
    "watch-act": "/watches/{watch}/pause/",
    "endpoint-act": "/webhooks/{endpoint}/pause/",
    "webhooks-act": "/webhooks/add/",
    "email-act": "/emails/{email}/correct/",
    "recipient-act": "/emails/{email}/suppress/",
    "kind-act": "/emails/kinds/order.shipped/pause/",
    "effect-act": "/effects/{effect}/cancel/",
    "effect-kind-act": "/effects/kinds/test.one/pause/",
    "fetches-act": "/fetches/retry/?state=failed",
    "unread-act": "/unread/reconcile/",
    "sign in": "/sign-in/",
    "refused link": "/sign-in/with/nonsense/",
    "forbidden": "/",
    "not found": "/sites/%3Cimg%20src=x%20onerror=alert(1)%3E/",
    "no page": "/nothing/",
}
VISITORS: Final = {"sign in": "", "refused link": "", "forbidden": "nobody", "no page": ""}
ACTS: Final = {name for name in PAGES if name.endswith("-act")}
SHOW_MARKUP: Final = (
    "fetches",
    "fetch",
    "fetch, done",
    "batches",
    "batch",
    "site",
    "emails",
    "email",
    "email, rendered",
    "effects",
    "effect",
    "audit",
    "search",
    "forbidden",
)
NO_PAGES: Final = {
    "email-html",  # what a frame shows, which is a stranger's: test_email_frame.py
    "export",  # a file
}
# Kept up to date by a script. The others have none: they are the same without.
LIVE: Final = set(PAGES) - {*VISITORS, *ACTS, "not found", "search", "search, nothing"}
# Leaves three rows of each kind: a hundred that differ only in their words take axe, and the Tab key, seconds. The page
# is no longer updated, which would bring the rows back.
OF_EACH_KIND: Final = """() => { document.getElementById("live-switch")?.click();
    for (const body of document.querySelectorAll("tbody")) { const seen = {};
    for (const row of [...body.rows]) {
        const kind = [...row.querySelectorAll("*")].map((each) => `${each.tagName} ${each.className}`).join();
        if ((seen[kind] = (seen[kind] ?? 0) + 1) > 3) row.remove();
    } } }"""
HEADINGS: Final = """[...document.querySelectorAll("h1, h2, thead th, dt, label")].map(
    (each) => each.textContent.replace(/[0-9]+/g, "").trim())"""
# What no page of ours has: if it is there, a stranger's text made it. And what turns text around.
FOREIGN: Final = r"""() => [
    ...[...document.querySelectorAll(`img, object, embed, base, style, script:not([src]), [style], [srcdoc]`)],
    ...[...document.querySelectorAll(`iframe:not([sandbox=""][src^="/emails/"])`)],
    ...[...document.links].filter((each) => !["http:", "https:"].includes(each.protocol)),
    ...[...document.querySelectorAll("*")].filter((each) => [...each.attributes].some((one) => /^on/.test(one.name))),
].map((each) => each.outerHTML.slice(0, 100)).concat(document.title.includes("<script") ? ["title"] : []).concat(
    document.body.innerText.match(/[\u202a-\u202e\u2066-\u2069\u200b\u200e\u200f\x00-\x08\x1b\x7f]/g) ?? [])"""
NARROW: Final = 360
SOON_MS: Final = 3_000  # before the page asks by itself
MOST_ABOVE: Final = 300  # px of a narrow window, above the first row of a list
# Of a narrow window: lists and drawings of which a part is beside it, and whether the present is.
OUT_OF_SIGHT: Final = """() => [
    ...[...document.querySelectorAll(".scroll")].filter((each) => each.scrollWidth > each.clientWidth),
    ...[...document.querySelectorAll(".timeline .now")].filter((each) => {
        const { left, right } = each.getBoundingClientRect();
        return left < 0 || right > innerWidth;
    }),
].map((each) => each.outerHTML.slice(0, 200))"""
OPEN_FOLDS: Final = """document.querySelectorAll(".fold").forEach((each) => { each.open = true; })"""
STOPS: Final = """[...document.querySelectorAll(
        'a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex="0"]')]
    .filter((each) => each.checkVisibility())"""
NOTES_FOCUS: Final = f"""() => {{
    window.stops = {STOPS};
    window.seen = [];
    const note = () => {{
        const style = getComputedStyle(document.activeElement);
        const shown = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 1;
        window.seen.push([window.stops.indexOf(document.activeElement), shown]);
    }};
    document.addEventListener("focusin", note);
    if (document.activeElement !== document.body) note();
    return [window.stops.length, window.seen.length];
}}"""


@dataclass(kw_only=True)
class Visit:
    """What was found at one page."""

    axe: list[str] = field(default_factory=list)
    too_wide: list[str] = field(default_factory=list)
    out_of_sight: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    headings: list[str] = field(default_factory=list)
    text: str = ""
    stops: int = 0  # how many elements the Tab key is to reach
    focused: list[list[Any]] = field(default_factory=list)  # what it has reached: its number, and whether that shows
    seen: list[str]  # by the witness
    bytes: Counter[str]


Visits = Callable[..., Visit]


@pytest.fixture(scope="module")
def visits(web: Web, tabs: Tabs) -> Visits:
    """Return a function that visits a page; it is loaded once, with script and without, for all tests."""

    @cache
    def visit(name: str, script: bool) -> Visit:
        if name in LIVE:  # a part that takes longer than a second says so, on a machine that is busy
            wait_for(lambda: b'class="failed"' not in _asked(web, name), 60, "all parts of the page")
        with tabs.opened(_session(web, name), script=script) as tab:
            page, found = tab.page, Visit(seen=tab.witness.seen, bytes=tab.witness.bytes)
            page.goto(_path(web, name))
            found.headings, found.foreign = page.evaluate(HEADINGS), page.evaluate(FOREIGN)
            found.text = page.inner_text("body")
            _look(page, found, script=script)
        return found

    return lambda name, *, script=True: visit(name, script)


def _look(page: Page, found: Visit, *, script: bool) -> None:
    found.too_wide = too_wide(page, LOOKS if script else [look for look in LOOKS if look[0] == "light"])
    show(page, "light", NARROW)
    found.out_of_sight = page.evaluate(OUT_OF_SIGHT)
    page.evaluate(OPEN_FOLDS)
    found.too_wide += too_wide(page, [("light", NARROW)])
    if script:
        page.evaluate(OF_EACH_KIND)
        found.axe = axe(page)
        _press_tab(page, found)


def _press_tab(page: Page, found: Visit) -> None:
    show(page, *FIRST_LOOK)  # what looked before may have left it narrow, or dark
    found.stops, begun = page.evaluate(NOTES_FOCUS)
    if not begun:
        page.keyboard.press("Tab")
    first = page.evaluate("window.seen[0][0]")
    for _ in range(first + 1, found.stops):
        page.keyboard.press("Tab")
    found.focused = page.evaluate("window.seen")


def _session(web: Web, name: str) -> str:
    visitor = VISITORS.get(name, "operator")
    return str(getattr(web, visitor)) if visitor else ""


def _asked(web: Web, name: str) -> bytes:
    """Return the page as it is sent: the process remembers what it shows for the next visitor."""
    cookie = {"Cookie": f"sessionid={_session(web, name)}"}
    with urlopen(Request(web.base + _path(web, name), headers=cookie), timeout=30) as answer:  # noqa: S310 it is http
        return bytes(answer.read())


def _path(web: Web, name: str) -> str:
    return PAGES[name].format(**web.rows._asdict())


def test_each_page_is_here() -> None:
    """A page that is added is held to the same."""
    assert {each.name for each in urlpatterns if each.name} <= set(PAGES) | NO_PAGES


def _wrong(found: Mapping[str, object]) -> dict[str, object]:
    return {name: each for name, each in found.items() if each}


@pytest.mark.faults
def test_axe_finds_nothing(visits: Visits) -> None:
    """Narrow and wide, in both colour schemes."""
    assert _wrong({name: visits(name).axe for name in PAGES}) == {}


@pytest.mark.parametrize("script", [True, False], ids=["script", "no script"])
def test_page_is_as_wide_as_the_window(visits: Visits, *, script: bool) -> None:
    """It does not scroll sideways, whatever strangers wrote."""
    assert _wrong({name: visits(name, script=script).too_wide for name in (PAGES if script else LIVE)}) == {}


def test_a_narrow_window_shows_all_of_a_row(visits: Visits) -> None:
    """Lists are cards there, and the drawing of slots shows the present."""
    assert _wrong({name: visits(name).out_of_sight for name in PAGES}) == {}


@pytest.mark.parametrize("script", [True, False], ids=["script", "no script"])
def test_nothing_is_logged(visits: Visits, *, script: bool) -> None:
    """No error, no violation of the policy, no dialog, no window."""
    assert _wrong({name: visits(name, script=script).seen for name in (PAGES if script else LIVE)}) == {}


def test_page_shows_the_same_without_script(visits: Visits) -> None:
    """All headings and names of fields."""
    headings = {name: visits(name).headings for name in PAGES}
    assert {name: visits(name, script=False).headings for name in LIVE} == {name: headings[name] for name in LIVE}
    assert [name for name, found in headings.items() if not found] == []


def test_what_strangers_wrote_is_text(visits: Visits) -> None:
    """It makes no element, no link to a script, and turns nothing around."""
    assert _wrong({name: visits(name).foreign for name in PAGES}) == {}


def test_markup_is_shown_as_it_was_written(visits: Visits) -> None:
    """It is not removed."""
    assert [name for name in SHOW_MARKUP if MARKUP[:40] not in visits(name).text] == []


def test_page_is_light(visits: Visits) -> None:
    """With all that it loads, not compressed, and even if each text is as long as it can be."""
    weighed = {name: visits(name).bytes for name in PAGES}
    print(weighed)
    assert [name for name, each in weighed.items() if not 0 < each["all"] <= MOST_BYTES >= each["transferred"]] == []
    scripts = {name: each["Script"] for name, each in weighed.items()}
    assert {name for name, each in scripts.items() if each} == LIVE
    assert max(scripts.values()) <= MOST_SCRIPT_BYTES


def test_tab_reaches_everything_in_order(visits: Visits) -> None:
    """Tab reaches each link, field and button in the order of the page, and shows where it is."""
    wrong = {}
    for name in PAGES:
        found = visits(name)
        first = found.focused[0][0]
        is_right = first == 0 or name == "sign in"  # the sign-in page gives the focus to the name
        if not is_right or found.focused != [[each, True] for each in range(first, found.stops)]:
            wrong[name] = found.focused
    assert wrong == {}


def test_sites_by_keyboard_alone(web: Web, tabs: Tabs) -> None:
    """Sign in, open Sites, search, sort, open a site, ask for a forecast."""
    with tabs.opened() as tab:
        page = tab.page
        page.goto("/sites/")
        _type(page, "Name", NAME)
        _type(page, "Password", PASSWORD, "Enter")
        page.wait_for_url(f"{web.base}/sites/")
        _type(page, "Name begins with", "site")
        _tab_to(page, page.get_by_label("Order"))
        page.keyboard.type("name")
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        page.wait_for_url("**/sites/?search=site&state=&fetches=&sort=name")
        _tab_to(page, page.get_by_role("link", name=SITE))
        page.keyboard.press("Enter")
        page.wait_for_url(f"**/sites/{SITE}/")
        _type(page, "so many more fetches", "500")
        _type(page, "another rate", "5/s", "Enter")
        page.wait_for_url("**?add=500&rate=5*")
        expect(page.get_by_text("with 500 more")).to_be_visible()


def test_fetches_by_keyboard_alone(web: Web, tabs: Tabs) -> None:
    """Skip to the content, page onwards, filter, open a fetch."""
    with tabs.opened(web.operator) as tab:
        page = tab.page
        page.goto("/fetches/")
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        expect(page.locator("#content")).to_be_focused()
        page.evaluate(OF_EACH_KIND)
        _tab_to(page, page.get_by_role("link", name="Next page"))
        page.keyboard.press("Enter")
        page.wait_for_url("**after=*")
        _type(page, "Error contains, * at its end: begins", "alert", "Enter")
        page.wait_for_url("**error=alert*")
        _tab_to(page, page.locator("tbody a").first)
        page.keyboard.press("Enter")
        page.wait_for_url("**/fetches/*/")
        expect(page.get_by_role("heading", name="What became of it")).to_be_visible()


def test_search_by_keyboard_alone(web: Web, tabs: Tabs) -> None:
    """From any page, without a script: to a site by a part of its name, to nothing, and to a list."""
    with tabs.opened(web.operator, script=False) as tab:
        page = tab.page
        page.goto("/unread/")
        _type(page, "A number, URL, site", "site.exam", "Enter")
        page.wait_for_url(f"**/sites/{SITE}/")
        _type(page, "A number, URL, site", "9" * 18, "Enter")
        expect(page.get_by_text("You may search for")).to_be_visible()
        _type(page, "A number, URL, site", ".example", "Enter")
        _tab_to(page, page.get_by_role("link", name="Sites: the whole list"))
        page.keyboard.press("Enter")
        page.wait_for_url("**/sites/?search=.example&sort=name")


def test_a_narrow_window_by_keyboard_alone(web: Web, tabs: Tabs) -> None:
    """Without a script: menu, search and filters are folded, and opened by a key. The list begins in sight."""
    with tabs.opened(web.operator, script=False) as tab:
        page = tab.page
        show(page, "light", NARROW)
        page.goto("/fetches/")
        search, status = page.get_by_label("A number, URL, site"), page.get_by_label("Status")
        expect(search).to_be_hidden()
        expect(status).to_be_hidden()
        assert page.locator("tbody tr").first.bounding_box()["y"] < MOST_ABOVE  # type: ignore[index]  # it is there
        _tab_to(page, page.locator("summary", has_text="Filters: all"))
        page.keyboard.press("Enter")
        _type(page, "Status", "200", "Enter")
        page.wait_for_url("**status=200*")
        expect(page.locator("summary", has_text="Filters: Status: 200")).to_be_visible()
        _tab_to(page, page.locator("summary", has_text="Menu"))
        page.keyboard.press("Enter")
        _tab_to(page, page.get_by_role("link", name="Unread"))
        page.keyboard.press("Enter")
        page.wait_for_url("**/unread/")


def test_a_chart_ends_now_at_its_right_end(web: Web, tabs: Tabs) -> None:
    """However long the words in the middle are."""
    with tabs.opened(web.operator) as tab:
        page = tab.page
        show(page, "light", NARROW)
        page.goto("/")
        words = page.locator("figcaption").first.locator("span")
        words.nth(1).evaluate("(each) => { each.textContent = 'at most 12,345 in 5 min, '.repeat(3); }")
        first, _, now = (words.nth(number).bounding_box() for number in range(3))
        chart = page.locator(".chart").first.bounding_box()
        assert first
        assert now
        assert chart
        assert now["y"] == first["y"]
        assert now["x"] + now["width"] == pytest.approx(chart["x"] + chart["width"], abs=1)


def test_what_was_opened_stays_open_and_what_is_shown_again_is_asked_for_at_once(web: Web, tabs: Tabs) -> None:
    """The server does not know what is open, and a browser may keep the page to which Back leads as it was left."""
    with tabs.opened(web.operator) as tab:
        page = tab.page
        show(page, "light", NARROW)
        page.goto("/fetches/?state=done")
        page.route("**/fetches/**", _as_new)  # the page itself is changed below, not what the server knows
        page.locator("summary", has_text="Filters").click()
        page.locator("tbody time").first.evaluate("(each) => { each.textContent = 'old'; }")
        with page.expect_response(lambda answer: "x-weir-live" in answer.request.headers, timeout=SOON_MS):
            page.evaluate("dispatchEvent(new PageTransitionEvent('pageshow', {persisted: true}))")
        expect(page.locator("tbody time").first).not_to_have_text("old")
        expect(page.get_by_label("Status")).to_be_visible()


def _as_new(route: Route) -> None:
    """Let the server answer as if the browser knew no version of the page."""
    headers = {name: value for name, value in route.request.headers.items() if name != "if-none-match"}
    route.continue_(headers=headers)


def _tab_to(page: Page, target: Any) -> None:
    for _ in range(300):
        if target.evaluate("(each) => each === document.activeElement"):
            return
        page.keyboard.press("Tab")
    pytest.fail(f"Tab does not reach {target}.")


def _type(page: Page, label: str, text: str, *keys: str) -> None:
    _tab_to(page, page.get_by_label(label))
    page.keyboard.type(text)
    for key in keys:
        page.keyboard.press(key)
