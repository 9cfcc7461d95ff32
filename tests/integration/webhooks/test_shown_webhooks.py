"""What is shown of a webhook and its endpoint: to which one it goes, what it waits for, and whom it needs."""

import json
from collections.abc import Iterator
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.db.models.functions import Now
from pytest_django import Settings

from weir.testing import captured_fetches
from weir.workers.audit.acting import of_shell
from weir.workers.fetches.models import Fetch
from weir.workers.fetches.reports.why import why
from weir.workers.overview.overview import count
from weir.workers.webhooks import actions
from weir.workers.webhooks.models import Endpoint

NAMED = "ORDERS"

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _kept(settings: Settings) -> Iterator[None]:
    settings.WEIR_EVENT_RETENTION = 86_400.0
    settings.WEIR_OBEY_ROBOTS = True
    with captured_fetches():
        yield


def test_a_webhook_says_that_its_endpoint_is_paused_and_waits_for_no_robots_txt() -> None:
    actor = of_shell("tester")
    to = actions.add(actor, "orders", "https://receiver.example/weir", secret=NAMED).pk
    webhook = actions.send_test(actor, to)
    assert "robots" not in _kinds(webhook)
    actions.pause(actor, to)
    [paused] = [each for each in why(webhook).blockers if each.kind == "endpoint paused"]
    assert (paused.text, paused.remedy) == (f"Its endpoint {to} is paused.", f"manage.py webhooks resume {to}")
    shown = _shown(webhook)
    assert f"webhook to       endpoint {to}\n" in shown
    assert "when its endpoint is resumed" in shown
    assert json.loads(_shown(webhook, "--json"))["endpoint_id"] == to
    actions.resume(actor, to)
    assert "endpoint paused" not in _kinds(webhook)


def _kinds(fetch_id: int) -> str:
    return " ".join(each.kind for each in why(fetch_id).blockers)


def _shown(fetch_id: int, *options: str) -> str:
    call_command("fetches", "show", str(fetch_id), *options, stdout=(out := StringIO()))
    return out.getvalue()


BROKEN: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {  # what the row of the endpoint has, and its webhook's
    "it answered 410": ({"paused_at": Now(), "pause_reason": "it answered 410"}, {}),
    "No events are kept": ({"error": "No events are kept"}, {}),
    "the site answered 503": ({}, {"attempts": 10, "error": "the site answered 503"}),
    "events were deleted undelivered": ({"missed_at": Now()}, {}),
    "an operator has paused it": ({"paused_at": Now(), "missed_at": Now()}, {"attempts": 10, "error": "no answer"}),
    "it fails since a minute ago": ({}, {"attempts": 9, "error": "no answer"}),
    "it missed some days ago": ({"missed_at": Now() - timedelta(days=2)}, {}),
}
NEED_SOMEBODY = {"it answered 410", "No events are kept", "the site answered 503", "events were deleted undelivered"}


@pytest.mark.parametrize("why_not", BROKEN)
def test_status_names_an_endpoint_that_needs_somebody(why_not: str) -> None:
    """An operator who has paused it knows; one that has just begun to fail may recover."""
    actor = of_shell("tester")
    to = actions.add(actor, "orders", "https://receiver.example/weir", secret=NAMED).pk
    webhook = actions.send_test(actor, to)
    of_endpoint, of_webhook = BROKEN[why_not]
    Endpoint.objects.update(**of_endpoint)
    if of_webhook:
        Fetch.objects.filter(pk=webhook).update(**of_webhook)
    found = count()
    told = (found.broken_endpoints, found.broken_endpoint, found.broken_endpoint_error)
    assert told == ((1, to, why_not) if why_not in NEED_SOMEBODY else (0, None, None))
