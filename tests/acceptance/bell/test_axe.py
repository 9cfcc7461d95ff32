"""What a checker of accessibility finds in the bell and its list, in a real browser."""

import pytest
from playwright.sync_api import Page, expect

from tests.acceptance.bell.conftest import Bells
from tests.acceptance.ops.browser import axe, too_wide
from tests.acceptance.ops.strangers import MARKUP
from weir.notifications import inbox

pytestmark = pytest.mark.django_db(transaction=True)


def findings(page: Page) -> list[str]:
    return [*too_wide(page), *axe(page)]


@pytest.mark.faults
def test_axe_finds_nothing(bells: Bells) -> None:
    """In both tabs, closed, open, and cut off; narrow and wide, in both colour schemes."""
    for number in range(25):
        inbox.notify(bells.user, "news", f"Number {number} {MARKUP}", body=MARKUP, url="/demo/")
    closed, opened = bells.open(), bells.open()
    opened.locator("weir-bell [part=button]").click()
    expect(opened.get_by_role("listitem")).to_have_count(20)
    opened.get_by_role("button", name="Older").click()
    expect(opened.get_by_role("listitem")).to_have_count(25)
    expect(opened.get_by_role("button", name="Older")).to_have_count(0)
    assert bells.seen == []  # axe writes styles, which the page's policy forbids
    assert findings(closed) == []
    assert findings(opened) == []
    opened.context.set_offline(True)
    expect(opened.get_by_role("status")).to_contain_text("does not answer", timeout=15_000)
    assert findings(opened) == []
