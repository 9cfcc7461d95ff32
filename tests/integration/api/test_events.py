"""What a program learns about ends, and how it is refused."""

from collections.abc import Iterator

import pytest
from pytest_django import Settings

from tests.integration.conftest import InThreads
from tests.programs import Program, token
from weir.testing import captured_fetches
from weir.testing.fetches import CapturedFetches
from weir.workers.audit.models import Entry
from weir.workers.events import log
from weir.workers.events.models import Event
from weir.workers.fetches.enqueue import request_fetches
from weir.workers.fetches.models import Fetch

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def fetches() -> Iterator[CapturedFetches]:
    """Keep fetches from being sent."""
    with captured_fetches() as captured:
        yield captured


@pytest.fixture
def program(settings: Settings) -> Program:
    """Keep events, and return a program with all scopes."""
    settings.WEIR_EVENT_RETENTION = 86_400.0
    log.keep()
    return Program(token())


def test_a_program_knows_what_has_ended_by_its_reference(program: Program, fetches: CapturedFetches) -> None:
    """It goes on from `next`, and lists by the reference."""
    begun = program.call("GET", "/fetches/ended?after=newest").json()
    body = {"urls": ["https://a.example/1", "https://a.example/2"], "reference": ["page-1", "page-2"]}
    first, second = program.call("POST", "/fetches", body).json()["fetches"]
    assert (first["reference"], second["reference"]) == ("page-1", "page-2")
    fetches.answer(Fetch.objects.get(pk=second["id"]))
    told = program.call("GET", f"/fetches/ended?after={begun['next']}&limit=1").json()
    event = Event.objects.get()
    assert (begun["events"], told["events"]) == (
        [],
        [
            {
                "id": event.pk,
                "type": "fetch.done",
                "fetch": second["id"],
                "state": "done",
                "reference": "page-2",
                "at": event.at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            }
        ],
    )
    assert program.call("GET", f"/fetches/ended?after={told['next']}").json() == {"events": [], "next": told["next"]}
    listed = program.call("GET", "/fetches?reference=page-2").json()["fetches"]
    assert [(row["id"], row["reference"]) for row in listed] == [(second["id"], "page-2")]
    assert program.call("GET", f"/fetches/{second['id']}").json()["reference"] == "page-2"


def test_a_program_that_cannot_go_on_is_told_what_to_do(program: Program, settings: Settings) -> None:
    cursor = program.call("GET", "/emails/ended").json()["next"]
    assert program.call("GET", "/emails/ended?after=x").status_code == 422
    settings.WEIR_EVENT_RETENTION = 0.0
    log.keep()
    refused = program.call("GET", f"/emails/ended?after={cursor}")
    assert (refused.status_code, "set WEIR_EVENT_RETENTION" in refused.json()["detail"]) == (409, True)
    settings.WEIR_EVENT_RETENTION = 86_400.0
    log.keep()
    gone = program.call("GET", f"/emails/ended?after={cursor}")
    assert (gone.status_code, "go on without a cursor" in gone.json()["detail"]) == (410, True)


@pytest.mark.parametrize("path", ["/fetches/ended", "/emails/ended", "/effects/ended"])
def test_the_scope_is_that_of_the_list(path: str) -> None:
    assert Program(token("weir_ops.view")).call("GET", path).status_code == 403


def test_from_the_newest_on_nothing_comes_that_had_ended(
    program: Program, fetches: CapturedFetches, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether it was in the log yet or not, and however much there is. The same holds for a new endpoint."""
    monkeypatch.setattr(log, "BATCH", 2)
    for fetch in request_fetches(f"https://a.example/{place}" for place in range(5)):
        fetches.answer(fetch)
    begun = program.call("GET", "/fetches/ended?after=newest").json()
    assert (begun["events"], Event.objects.count()) == ([], 5)
    for fetch in request_fetches(f"https://a.example/{place}" for place in range(5)):
        fetches.answer(fetch)
    made = program.call("POST", "/webhooks", {"name": "orders", "url": "https://a.example/", "secret": "HOOK"}).json()
    assert (made["behind"], Event.objects.count()) == (0, 10)


def test_of_programs_at_once_one_makes_the_endpoint(program: Program, in_threads: InThreads) -> None:
    """The others find it, as the same request again does."""
    body = {"name": "orders", "url": "https://a.example/", "secret": "HOOK"}
    answers = in_threads(6, lambda _number: Program(program.secret).call("POST", "/webhooks", body))
    assert [answer.status_code for answer in answers] == [200] * 6
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert Entry.objects.filter(action="webhooks.add").count() == 1
