"""Chromium as operators use it, and a witness of what goes wrong in a page."""

import os
import re
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Final

from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Browser, BrowserContext, Dialog, Page, sync_playwright

# The first one takes a quarter of the processor's time: it draws no window around a page.
NAMES: Final = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
CHROMIUM: Final = next(filter(None, map(shutil.which, NAMES)), None)
INSTALL: Final = "apt-get install --no-install-recommends chromium-headless-shell"
WHY_NOT: Final = "" if CHROMIUM else f"no Chromium is installed: {INSTALL}"
LONGEST_MS: Final = 15_000  # of one step
ALL_LOOKS: Final = list(product(("light", "dark"), (360, 1280, 2560)))
FIRST_LOOK: Final = ("light", 1280)  # a page is loaded like this
AT_LENGTH: Final = "WEIR_FAULTS" in os.environ  # `make faults` looks at everything in all ways
# The schemes differ in colours alone: both are seen where a page has least room. Little changes from one to the next.
LOOKS: Final = ALL_LOOKS if AT_LENGTH else [FIRST_LOOK, ("light", 2560), ("light", 360), ("dark", 360)]
AXE_LOOKS: Final = ALL_LOOKS if AT_LENGTH else [("dark", 360), FIRST_LOOK]  # axe takes most of the time
LATER: Final = "Fetch"  # Chromium's type of what a script asks for once the page is there
AXE: Final = """() => axe.run(document, {resultTypes: ["violations"]}).then((found) => found.violations.map(
    (each) => `${each.id}: ${each.nodes.slice(0, 3).map((node) => node.html.slice(0, 160)).join(" | ")}`))"""
OVERFLOW: Final = "document.scrollingElement.scrollWidth - innerWidth"
TELLS_VIOLATIONS: Final = """
document.addEventListener("securitypolicyviolation",
    (event) => console.error(`CSP: ${event.violatedDirective} ${event.blockedURI}`));
"""


@dataclass(kw_only=True)
class Witness:
    """What a page does that no page may do: errors, violations of its policy, dialogs. And what it loads, in bytes."""

    seen: list[str] = field(default_factory=list)
    bytes: Counter[str] = field(default_factory=Counter)
    _kinds: dict[str, str] = field(default_factory=dict)

    def watch(self, page: Page) -> None:
        """Begin, without the browser's cache from now on. Handlers only record: they may not wait for the browser."""
        page.add_init_script(TELLS_VIOLATIONS)
        page.on("console", lambda message: self._note(message.type, message.text))
        page.on("pageerror", lambda error: self._note("error", str(error)))
        page.on("dialog", self._dismiss)
        page.on("popup", lambda popup: self._note("error", f"a window of {popup.url}"))
        protocol = page.context.new_cdp_session(page)
        protocol.on("Network.requestWillBeSent", lambda sent: self._kinds.update({sent["requestId"]: sent["type"]}))
        protocol.on("Network.dataReceived", self._received)
        protocol.on("Network.loadingFinished", self._finished)
        protocol.send("Network.enable")
        protocol.send("Network.setCacheDisabled", {"cacheDisabled": True})

    def begin(self) -> None:
        """Forget what was seen; lists that were handed out before keep it."""
        self.seen, self.bytes = [], Counter()

    def _note(self, kind: str, text: str) -> None:
        is_the_status_asked_for = re.search(r"status of (403|404) ", text)
        if kind in {"error", "warning"} and not is_the_status_asked_for:
            self.seen.append(f"{kind}: {text}")

    def _dismiss(self, dialog: Dialog) -> None:
        self.seen.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _received(self, data: dict[str, Any]) -> None:
        if (kind := self._kinds.get(data["requestId"], "")) != LATER:
            self.bytes["all"] += data["dataLength"]
            self.bytes[kind] += data["dataLength"]

    def _finished(self, request: dict[str, Any]) -> None:
        if self._kinds.get(request["requestId"]) != LATER:
            self.bytes["transferred"] += int(request["encodedDataLength"])


@dataclass(kw_only=True)
class Tab:
    """A tab of a context of its own, with its witness."""

    page: Page
    witness: Witness


class Tabs:
    """Tabs that are used again and again: to make one takes the browser four times as long as to load a page.

    Each user of a tab finds it like new, except for scripts that were added to all its pages: close the page then.
    """

    def __init__(self, browser: Browser, base: str) -> None:
        self._browser, self._base = browser, base
        self._free: dict[bool, list[Tab]] = {True: [], False: []}
        self._contexts = ExitStack()

    @contextmanager
    def opened(self, session: str = "", *, script: bool = True) -> Iterator[Tab]:
        """A tab with this session; "" for a visitor who has none."""
        tab = self._free[script].pop() if self._free[script] else self._made(script=script)
        if session:
            _sign_in(tab.page.context, self._base, session)
        tab.witness.begin()
        try:
            yield tab
        except BaseException:
            tab.page.close()
            raise
        if not tab.page.is_closed():
            self._clear(tab)
            self._free[script].append(tab)

    def close(self) -> None:
        """Close all contexts."""
        self._contexts.close()

    def _made(self, *, script: bool) -> Tab:
        context = visiting(self._browser, self._base, java_script_enabled=script)
        tab = Tab(page=self._contexts.enter_context(context).new_page(), witness=Witness())
        tab.witness.watch(tab.page)
        show(tab.page, *FIRST_LOOK)
        return tab

    def _clear(self, tab: Tab) -> None:
        page = tab.page
        tab.witness.begin()
        page.unroute_all(behavior="wait")  # a handler that still runs would be an error of the next test
        page.context.set_offline(False)
        page.goto("/livez")  # no page asks for anything any more; a page of another site would need another process
        page.evaluate("localStorage.clear(); sessionStorage.clear(); window.name = ''")
        page.context.clear_cookies()
        show(page, *FIRST_LOOK)


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser, which is closed at the end."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def visiting(browser: Browser, base: str, session: str = "", **options: Any) -> Iterator[BrowserContext]:
    """A context of the browser with this session; "" for a visitor who has none.

    Nothing moves there: a colour in the middle of a change is not a colour of the page.
    """
    context = browser.new_context(base_url=base, reduced_motion="reduce", **options)
    context.set_default_timeout(LONGEST_MS)
    if session:
        _sign_in(context, base, session)
    try:
        yield context
    finally:
        context.close()


def _sign_in(context: BrowserContext, base: str, session: str) -> None:
    context.add_cookies([{"name": "sessionid", "value": session, "url": base}])


def axe(page: Page) -> list[str]:
    """Return what axe finds wrong, by the colour scheme and the width at which it looks."""
    found: list[str] = []
    page.evaluate(AXE_SCRIPT)
    for scheme, width in AXE_LOOKS:
        show(page, scheme, width)
        found += [f"{scheme}, {width} px: {each}" for each in page.evaluate(AXE)]
    return found


def too_wide(page: Page, looks: Iterable[tuple[str, int]] = LOOKS) -> list[str]:
    """Return the widths at which the page scrolls sideways, and by how much.

    A script learns of a new width only when the next frame is drawn: what is too wide is measured again after one.
    """
    found: list[str] = []
    for scheme, width in looks:
        show(page, scheme, width)
        if page.evaluate(OVERFLOW) > 0:
            page.screenshot(clip={"x": 0, "y": 0, "width": 1, "height": 1})
            if (over := page.evaluate(OVERFLOW)) > 0:
                found.append(f"{over} px at {width} px")
    return found


def show(page: Page, scheme: str, width: int) -> None:
    """Make the window this wide, and its colours light or dark."""
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    page.set_viewport_size({"width": width, "height": 900})
