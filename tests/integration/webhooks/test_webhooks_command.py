"""`manage.py webhooks`, and the audit trail of what changes endpoints; `manage.py check` of their secrets."""

import json
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from pytest_django import Settings

from weir.testing import captured_fetches
from weir.workers.audit.models import Entry
from weir.workers.fetches.models import Fetch, FetchState
from weir.workers.webhooks import checks
from weir.workers.webhooks.models import Endpoint

pytestmark = pytest.mark.django_db(transaction=True)

URL = "https://a.example/hook"


@pytest.fixture(autouse=True)
def _kept(settings: Settings) -> None:
    settings.WEIR_EVENT_RETENTION = 86_400.0


def run(*words: str) -> str:
    """Return what the command prints."""
    out = StringIO()
    with captured_fetches():
        call_command("webhooks", *words, stdout=out)
    return out.getvalue()


def data(*words: str) -> Any:
    return json.loads(run(*words, "--json"))


def test_an_endpoint_from_its_beginning_to_its_end() -> None:
    assert run("list") == "No endpoints.\n"
    added = data("add", "orders", URL, "--secret", "ORDERS", "--type", "email.sent")
    known = str(added["id"])
    assert (added["state"], added["behind"], added["types"]) == ("delivering", 0, ["email.sent"])
    assert run("test", known) == "1 endpoint tested.\n"
    assert data("show", known)["unfinished"] == 1
    assert URL in run("show", known)
    assert run("pause", known) == "1 endpoint paused.\n"
    with pytest.raises(CommandError, match=rf"Endpoint {known} is paused: resume it first."):
        run("test", known)
    assert data("show", known)["state"] == "paused"
    assert "paused" in run("list")
    run("resume", known)
    assert data("list")["endpoints"][0]["state"] == "delivering"
    with pytest.raises(CommandError, match=r"There is no endpoint 99\."):
        run("remove", known, "99")
    assert not Endpoint.objects.exists()
    assert Fetch.objects.get().state == FetchState.CANCELLED


def test_a_known_name_is_changed_and_each_change_is_in_the_audit_trail() -> None:
    """A call that changes nothing is not."""
    for secret in ("ORDERS", "ORDERS", "OTHER"):
        run("add", "orders", URL, "--secret", secret)
    assert Endpoint.objects.get().secret == "OTHER"  # noqa: S105  its name
    assert [entry.changes for entry in Entry.objects.order_by("-pk")[:1]] == [[("secret", "ORDERS", "OTHER")]]
    assert Entry.objects.count() == 2


def test_without_events_there_is_nothing_to_send(settings: Settings) -> None:
    """It says which setting keeps them."""
    settings.WEIR_EVENT_RETENTION = 0.0
    with pytest.raises(CommandError, match="set WEIR_EVENT_RETENTION"):
        run("add", "orders", URL, "--secret", "ORDERS")


def test_the_check_names_secrets_that_cannot_sign(settings: Settings) -> None:
    """And quotes nothing of them."""
    for name in ("GOOD", "NONE", "TEXT"):
        run("add", name, URL, "--secret", name)
    settings.WEIR_SECRETS = {"GOOD": f"whsec_{'A' * 43}=", "TEXT": "canary-17"}
    settings.WEIR_EVENT_RETENTION = 0.0
    found = checks.webhooks_can_be_signed(databases=["default"])
    assert [(each.id, each.msg.split(":")[0]) for each in found] == [
        ("weir.W040", "Webhooks cannot be signed here"),
        ("weir.E039", "Webhooks cannot be signed"),
        ("weir.W041", "WEIR_EVENT_RETENTION is not set"),
    ]
    assert "canary" not in str(found)
    assert checks.webhooks_can_be_signed(databases=None) == []
