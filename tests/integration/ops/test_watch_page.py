"""The page of a watch says what the watch asks for."""

from datetime import timedelta
from typing import Any

import pytest

from tests.integration.ops.test_acting import signed_in
from weir.workers.watches.watching import watch

pytestmark = pytest.mark.django_db(transaction=True)

EVERY, TOLD = timedelta(hours=1), "shop.tasks.told"
USUAL = ("up to 10 %", "priority 0, revalidated")
OTHER = ("up to 25 %", "priority 7, share tenant-7, not revalidated", ", for the first body, too")


def test_the_page_says_how_its_fetches_are_made() -> None:
    """And how far apart they are, and whether the first one is told."""
    usual = watch("http://a.example/", every=EVERY, on_change=TOLD)
    more: dict[str, Any] = {"jitter": 0.25, "priority": 7, "share": "tenant-7", "revalidate": False, "tell_first": True}
    other = watch("http://b.example/", every=EVERY, on_change=TOLD, **more)
    browser = signed_in()
    for row, expected in ((usual, USUAL), (other, OTHER)):
        page = browser.get(f"/watches/{row.pk}/").text
        assert {text for text in (*USUAL, *OTHER) if text in page} == set(expected)
