"""The HTML of an e-mail in a real browser: it is shown on the e-mail's page, and can do nothing there."""

import socket
from collections.abc import Iterator

import pytest
from playwright.sync_api import Frame, Page, expect

from tests.acceptance.ops.browser import Tabs, axe
from tests.acceptance.ops.conftest import Web
from tests.acceptance.ops.strangers import transmitted

pytestmark = pytest.mark.django_db
IN_VAIN_MS = 1_000  # in which a browser that would connect has done so

# What opens a connection, or leads elsewhere, without a click.
LOADS = """
<!doctype html><meta charset=utf-8><meta http-equiv=refresh content="0;url={evil}/refresh">
<link rel=preconnect href={evil}><link rel=stylesheet href={evil}/css><link rel=icon href={evil}/icon>
<style>@import url({evil}/import); body {{ background: url({evil}/background) }} h1 {{ color: rgb(1, 2, 3) }}</style>
<script>parent.document.title = "taken"; top.location = "{evil}/script"</script><script src={evil}/script></script>
<h1>Hello Kim</h1><img id=remote src={evil}/img onerror="top.location = '{evil}/onerror'">
<img id=own src="data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7">
<iframe src={evil}/frame></iframe><iframe srcdoc="<iframe src={evil}/frame></iframe>"></iframe>
<div><template shadowrootmode=open><iframe src={evil}/frame></iframe></template></div>
<svg><foreignObject><iframe src={evil}/frame></iframe></foreignObject><image href={evil}/svg /></svg>
<object data={evil}/object></object><embed src={evil}/embed><video src={evil}/video poster={evil}/poster></video>
"""
# What the reader may be made to click. A click may look the host up, and open a connection; it sends nothing.
CLICKED = {
    "link": "<a href={evil}/link>Hello Kim</a>",
    "link of the top": "<a target=_top href={evil}/top>Hello Kim</a>",
    "link to a window": "<a target=_blank href={evil}/blank>Hello Kim</a>",
    "ping": "<a href=#x ping={evil}/ping>Hello Kim</a>",
    "script": "<a href=\"javascript:top.location = '{evil}/script'\">Hello Kim</a>",
    "form": "<form action={evil}/form><button>Hello Kim</button></form>",
    "form of the top": "<form target=_top action={evil}/form method=post><button>Hello Kim</button></form>",
    "page of ours": "<a target=_top href=/sites/>Hello Kim</a>",
}


class Evil:
    """A host that notes who connects, and what is sent to it."""

    def __init__(self) -> None:
        self._listens = socket.create_server(("127.0.0.1", 0))
        self._listens.settimeout(0)
        self.url = f"http://127.0.0.1:{self._listens.getsockname()[1]}"

    def heard(self, page: Page) -> list[bytes]:
        """Return what each of those that connected sent, once the browser has had time to."""
        page.wait_for_timeout(IN_VAIN_MS)
        sent: list[bytes] = []
        while True:
            try:
                caller, _ = self._listens.accept()
            except BlockingIOError:
                return sent
            with caller:
                caller.settimeout(0)
                try:
                    sent.append(caller.recv(1_000))
                except BlockingIOError:
                    sent.append(b"")

    def close(self) -> None:
        """Listen no more."""
        self._listens.close()


@pytest.fixture
def evil() -> Iterator[Evil]:
    """A host of a stranger's."""
    listens = Evil()
    yield listens
    listens.close()


def opened(web: Web, page: Page, html: str) -> tuple[str, Frame]:
    """Give the e-mail this HTML, and open its frame on its page; returns the page's URL, and the frame."""
    email = web.rows.rendered
    web.write(f"UPDATE weir_mail_rendering SET content = '\\x{transmitted(html).hex()}' WHERE email_id = {email}")
    page.goto(f"/emails/{email}/")
    assert [each.url for each in page.frames] == [page.url, ""]  # not loaded before it is opened
    page.get_by_text("HTML", exact=True).click()
    expect(page.frame_locator("iframe.email").get_by_text("Hello Kim").first).to_be_visible()
    [frame] = [each for each in page.frames if each.url == f"{page.url}html/"]
    return page.url, frame


def test_html_is_shown_with_its_own_styles_and_pictures_and_loads_nothing(web: Web, tabs: Tabs, evil: Evil) -> None:
    """Not one connection goes out, and no script runs."""
    with tabs.opened(web.operator) as tab:
        url, frame = opened(web, tab.page, LOADS.format(evil=evil.url))
        assert evil.heard(tab.page) == []
        assert (tab.page.url, len(tab.page.context.pages)) == (url, 1)
        assert "taken" not in tab.page.title()
        assert frame.evaluate("getComputedStyle(document.querySelector('h1')).color") == "rgb(1, 2, 3)"
        sizes = [frame.evaluate(f"document.getElementById('{name}').naturalWidth") for name in ("own", "remote")]
        assert sizes == [1, 0]
        assert frame.evaluate("[self.origin, document.querySelectorAll('iframe, link, meta, object').length]") == [
            "null",
            0,
        ]
        assert not [each for each in tab.witness.seen if "dialog" in each or "window" in each]
        assert axe(tab.page) == []


@pytest.mark.parametrize("name", CLICKED)
def test_a_click_in_the_html_leads_nowhere(web: Web, tabs: Tabs, evil: Evil, name: str) -> None:
    """No request is sent, the page stays, and no window opens."""
    with tabs.opened(web.operator) as tab:
        url, frame = opened(web, tab.page, CLICKED[name].format(evil=evil.url))
        frame.get_by_text("Hello Kim").click()
        assert [each for each in evil.heard(tab.page) if each] == []
        assert (tab.page.url, len(tab.page.context.pages)) == (url, 1)


def test_html_alone_in_a_tab_is_the_page(web: Web, tabs: Tabs) -> None:
    """Where a link would lead away."""
    with tabs.opened(web.operator) as tab:
        tab.page.goto(f"/emails/{web.rows.rendered}/html/")
        assert tab.page.url == f"{web.base}/emails/{web.rows.rendered}/"
