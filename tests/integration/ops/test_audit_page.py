"""The page of the audit trail: filters by time, and links to what an entry is about."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from tests.integration.ops.test_acting import signed_in
from weir.workers.audit.models import Door, Entry

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def browser() -> Client:
    return signed_in()


def entry(target: str, action: str = "sites.pause", **values: Any) -> None:
    Entry.objects.create(actor="ada", door=Door.PAGE, action=action, target=target, **values)


def test_entries_of_a_time(browser: Client) -> None:
    """Since then, until then, with the other filters; the file has the same."""
    now = timezone.now()
    for hours in (1, 3, 5):
        entry(f"{hours}h.example", at=now - timedelta(hours=hours))
    since = (now - timedelta(hours=4)).isoformat()
    for query, hours_ago in (
        ({"since": "4h"}, [1, 3]),
        ({"until": "2h"}, [3, 5]),
        ({"since": since, "until": "2h"}, [3]),
        ({"since": "4h", "target": "1h.example"}, [1]),
    ):
        for path in ("/audit/", "/audit/export.csv"):
            answer: Any = browser.get(path, query)
            text = b"".join(answer).decode()
            assert [
                hours for hours in (1, 3, 5) if f"{hours}h.example</a>" in text or f",{hours}h.example," in text
            ] == (hours_ago), (path, query)


@pytest.mark.parametrize("query", [{"since": "yesterday"}, {"until": "0001-01-01"}])
def test_a_time_that_is_none_is_said(browser: Client, query: dict[str, str]) -> None:
    page = browser.get("/audit/", query)
    assert (page.status_code, "must be a time such as 2026-01-31T12:00Z" in page.text) == (200, True)
    assert browser.get("/audit/export.csv", query).status_code == 400


def test_a_cursor_of_another_list_is_still_refused(browser: Client) -> None:
    """It is no time, either."""
    assert browser.get("/audit/?after=x").status_code == 400


def test_a_target_leads_to_its_page(browser: Client) -> None:
    """Where it has one. What strangers name is text."""
    for target, action, url in (
        ("a.example", "sites.pause", "/sites/a.example/"),
        ("a.example:8080", "sites.set", "/sites/a.example:8080/"),
        ("fetch 17", "fetches.cancel", "/fetches/17/"),
        ("e-mail 18", "emails.arrived", "/emails/18/"),
        ("batch 20", "batches.cancel", "/batches/20/"),
        ("watch 19", "watches.pause", "/watches/19/"),
        ("endpoint 3", "webhooks.pause", "/webhooks/3/"),
        ("news <1>/2", "emails.pause_kind", "/emails/?state=&amp;kind=news+%3C1%3E%2F2"),
        ("fetches site a.example", "fetches.retry", ""),
        ("fetch 17 <b>", "fetches.cancel", ""),
        ("</b>", "sites.pause", ""),
        ("https://a.example", "sites.ask_robots", ""),
        ("b.example", "sites.delete", ""),
        ("user 17", "unread.reconcile_user", ""),
    ):
        entry(target, action)
        page = browser.get("/audit/", {"target": target}).text
        cell = page.partition(f"<td>{action}</td>")[2].partition("</td>")[0]
        assert cell.partition('href="')[2].partition('"')[0] == url, target
