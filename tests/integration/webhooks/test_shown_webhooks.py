"""What is shown of a fetch that is a webhook: to which endpoint, and what it waits for."""

import json
from collections.abc import Iterator
from io import StringIO

import pytest
from django.core.management import call_command
from pytest_django import Settings

from weir.testing import captured_fetches
from weir.workers.audit.acting import of_shell
from weir.workers.fetches.reports.why import why
from weir.workers.webhooks import actions

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
