"""References: what callers call their fetches."""

import json
from collections.abc import Iterator
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from pytest_django import Settings

from weir.testing import captured_fetches
from weir.workers.events import log
from weir.workers.fetches.enqueue import request_fetch, request_fetches
from weir.workers.fetches.models import Fetch

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("fetches")]
URL = "https://a.example/"


@pytest.fixture
def fetches() -> Iterator[None]:
    """Keep fetches from being sent."""
    with captured_fetches():
        yield


def told(*arguments: str) -> str:
    written = StringIO()
    call_command(*arguments, stdout=written)
    return written.getvalue()


def test_one_is_for_all_or_each_has_its_own() -> None:
    assert [fetch.reference for fetch in request_fetches([URL] * 2, reference="a")] == ["a", "a"]
    own = request_fetches([URL, "no URL", URL], reference=["b", "c", ""])
    assert [Fetch.objects.get(pk=fetch.pk).reference for fetch in own] == ["b", "c", None]


def test_dedupe_is_within_a_reference() -> None:
    """Whoever asked under another name would never learn of the end."""
    first, other, again = (request_fetch(URL, reference=name, dedupe=True).pk for name in ("a", "b", "a"))
    assert first == again != other


@pytest.mark.parametrize(
    ("reference", "error"),
    [("r" * 201, ValueError), ("a\nb", ValueError), (7, TypeError), (["a"], ValueError), ([7, 7], TypeError)],
)
def test_a_reference_is_a_short_text(reference: object, error: type[Exception]) -> None:
    with pytest.raises(error, match="reference must"):
        request_fetches([URL] * 2, reference=reference)  # type: ignore[arg-type]
    assert not Fetch.objects.exists()


def test_commands_find_fetches_by_it_and_list_their_ends(settings: Settings) -> None:
    settings.WEIR_EVENT_RETENTION = 86_400.0
    log.keep()
    with pytest.raises(SystemExit):  # as for any text that is no URL
        told("fetch", "no URL", "--reference", "page-1", "--no-wait")
    [fetch] = Fetch.objects.all()
    request_fetch(URL)
    listed = json.loads(told("fetches", "list", "--reference", "page-1", "--json"))["fetches"]
    assert [(row["id"], row["reference"]) for row in listed] == [(fetch.pk, "page-1")]
    assert "page-1" in told("fetches", "show", str(fetch.pk))
    ended = json.loads(told("fetches", "ended", "--json"))
    assert [(row["type"], row["fetch"], row["reference"]) for row in ended["events"]] == [
        ("fetch.failed", fetch.pk, "page-1")
    ]
    assert "page-1" in told("fetches", "ended")
    assert told("emails", "ended", "--after", ended["next"]).startswith("No more have ended. --after ")
    with pytest.raises(CommandError, match="does not belong to this list"):
        told("fetches", "ended", "--after", "x")
