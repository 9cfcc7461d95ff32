"""`manage.py fetches show`: all that is stored of one fetch, and its body alone."""

import json
from datetime import timedelta
from io import BytesIO, StringIO, TextIOWrapper

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from pytest_django import Settings

from tests.integration.conftest import claimed, database_now
from weir.ratelimit.models import Slot
from weir.workers.fetches.dispatch import dispatch
from weir.workers.fetches.enqueue import request_fetch
from weir.workers.fetches.fetcher.results.outcomes import judge
from weir.workers.fetches.fetcher.results.store import store
from weir.workers.fetches.jobs import Answer
from weir.workers.fetches.models import Fetch, FetchBody, FetchState, KeptBody
from weir.workers.fetches.on_done import unknown
from weir.workers.fetches.reports.fetch_filters import Filters
from weir.workers.fetches.reports.fetch_list import fetch_list

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("messages")]

BODY = bytes(range(256))
NEVER_OR_PURGED = "no fetch was given this number (a transaction that rolls back leaves a gap), or it was purged"
NEWEST = "`manage.py fetches` lists the newest."


def told(*arguments: object) -> str:
    """Return what the command prints."""
    output = StringIO()
    call_command("fetches", "show", *map(str, arguments), stdout=output)
    return output.getvalue()


@pytest.fixture
def done() -> int:
    """Make a fetch that was redirected, and ended with a body that is not text."""
    fetch = request_fetch("http://a.example/", priority=7)
    now = database_now()
    Fetch.objects.filter(pk=fetch.pk).update(
        state=FetchState.DONE,
        hop_url="http://a.example/home",
        redirects=1,
        attempts=1,
        status_code=200,
        headers=[["Content-Type", "text/html"], ["X-Evil", "\x1b[31m"]],
        started_at=now - timedelta(seconds=1),
        finished_at=now,
        elapsed_ms=12.3,
    )
    FetchBody.objects.create(fetch_id=fetch.pk, own=BODY)
    return fetch.pk


def test_everything_about_one_fetch_is_shown(done: int) -> None:
    """State, URL, target, site, attempts, times, status, headers, and how long the body is; safely for a terminal."""
    text = told(done)
    lines = dict(line.strip().split(maxsplit=1) for line in text.splitlines()[1:])
    assert text.startswith(f"fetch {done}\n")
    assert (lines["state"], lines["URL"], lines["target"]) == ("done", "http://a.example/", "http://a.example/home")
    assert (lines["site"], lines["priority"], lines["attempts"]) == ("a.example", "7", "1 of 5")
    assert lines["status"] == "200"
    assert lines["body"].startswith("256 bytes")
    assert {"queued", "due", "started", "finished"} <= lines.keys()
    assert "| Content-Type: text/html" in text
    assert "\x1b" not in text


def test_everything_about_one_fetch_for_machines(done: int) -> None:
    """One object, with times in ISO format, and null for missing values."""
    of = json.loads(told(done, "--json"))
    assert (of["id"], of["state"], of["status"], of["site"], of["target"]) == (
        done, "done", 200, "a.example", "http://a.example/home",
    )  # fmt: skip
    assert of["headers"][1] == ["X-Evil", "\x1b[31m"]
    assert (of["body_bytes"], of["is_robots"], of["on_done"], of["unchanged_from"]) == (256, False, None, None)
    assert of["finished_at"].endswith("+00:00")


def test_where_a_body_is_that_its_row_does_not_have_is_shown(done: int) -> None:
    """In a storage, or deleted; the bytes of a shared one are written as before."""
    kept = KeptBody.objects.create(sha256=b"h" * 32, content=BODY, size=len(BODY))
    FetchBody.objects.filter(pk=done).update(own=None, sha256=kept.pk)
    assert "256 bytes: --body writes them" in told(done)
    KeptBody.objects.update(content=None, size=10**9, storage="bodies", file="a")
    assert "1,000,000,000 bytes in the storage bodies: --body writes them" in told(done)
    FetchBody.objects.filter(pk=done).update(sha256=None)
    assert "deleted before the fetch (WEIR_FETCH_BODY_RETENTION)" in told(done)
    assert json.loads(told(done, "--json"))["body_is_deleted"] is True
    with pytest.raises(CommandError, match="WEIR_FETCH_BODY_RETENTION"):
        told(done, "--body")


def test_why_a_body_is_not_whole_is_shown(done: int) -> None:
    """For people and for machines, and in a list."""
    assert json.loads(told(done, "--json"))["incomplete"] is None
    Fetch.objects.filter(pk=done).update(incomplete="taken as it came\x1b")
    assert json.loads(told(done, "--json"))["incomplete"] == "taken as it came\x1b"
    assert "incomplete" in told(done)
    assert "\x1b" not in told(done)
    assert fetch_list(Filters()).fetches[0].incomplete == "taken as it came\x1b"


def test_its_way_is_a_line_in_time_as_far_as_it_is_known() -> None:
    """It shows what has happened, and what is expected, with the times of the last attempt."""
    page = request_fetch("http://a.example/page", on_done="shop.tasks.fetched").pk
    assert [step["what"] for step in json.loads(told(page, "--json"))["way"]] == ["queued", "due", "on_done"]
    dispatch()
    Slot.objects.update(start_time=database_now() + timedelta(minutes=1))
    steps = {step["what"]: step for step in json.loads(told(page, "--json"))["way"]}
    assert list(steps) == ["queued", "due", "reserved", "slot", "on_done"]
    assert (steps["slot"]["expected"], steps["reserved"]["expected"]) == (True, False)
    now = database_now()
    Slot.objects.update(
        start_time=now, use_until=now + timedelta(minutes=1)
    )  # however long this process is kept waiting
    job = claimed(page)
    assert "claimed" in {step["what"] for step in json.loads(told(page, "--json"))["way"]}
    answer = Answer(job=job, status_code=200, headers=(), body=b"page", lateness_ms=1.5, elapsed_ms=20.0)
    store([judge(answer, max_body=10, chance=0.0)])
    assert {step["what"] for step in json.loads(told(page, "--json"))["way"]} == {
        "queued", "due", "reserved", "claimed", "slot", "started", "answered", "finished", "on_done",
    }  # fmt: skip
    text = told(page)
    assert "(1.5 ms after its slot)" in text
    assert "(status 200)" in text
    assert "(shop.tasks.fetched is called)" in text
    Fetch.objects.filter(pk=page).update(on_done_called_at=None)
    assert "shop.tasks.fetched is called within seconds" in told(page)
    unknown.record(page, "shop.tasks.fetched")
    assert "(expected, shop.tasks.fetched is called again: the worker that got the call does not know" in told(page)


@pytest.mark.parametrize(
    ("stored", "lines"),
    [
        ({"Content-Type": "text/html"}, ['  | {"Content-Type": "text/html"}']),
        (
            [["X-One", "1"], ["X-Three", "1", "2"], "X-None", 7],
            ["  | X-One: 1", '  | ["X-Three", "1", "2"]', '  | "X-None"', "  | 7"],
        ),
        ("Content-Type", ['  | "Content-Type"']),
        ({}, []),
    ],
)
def test_headers_that_others_have_written_are_shown_as_they_are_stored(
    done: int, stored: object, lines: list[str]
) -> None:
    """The column is JSON, which may have any form; Weir itself writes pairs."""
    Fetch.objects.filter(pk=done).update(headers=stored)
    assert [line for line in told(done).splitlines() if line.startswith("  | ")] == lines


def test_the_body_is_written_as_it_is_and_nothing_else(done: int) -> None:
    """So that it can be redirected to a file."""
    written = BytesIO()
    output = TextIOWrapper(written, encoding="utf-8")
    call_command("fetches", "show", str(done), "--body", stdout=output)
    output.flush()
    assert written.getvalue() == BODY


def test_what_has_no_body_is_refused_with_the_reason(done: int, settings: Settings) -> None:
    """The body has not come, or is kept elsewhere; and a body is not written as JSON."""
    settings.WEIR_OBEY_ROBOTS = True
    waiting = request_fetch("http://b.example/").pk
    robots = Fetch.objects.get(is_robots=True).pk
    for arguments, sentence in (
        ([waiting, "--body"], f"Fetch {waiting} has no body: it is queued."),
        ([robots, "--body"], f"Fetch {robots} has no body: it is a robots.txt that Weir itself asks for."),
        ([done, "--body", "--json"], "Give --body or --json: not both."),
        ([done + 99], f"There is no fetch {done + 99}: {NEVER_OR_PURGED}. {NEWEST}"),
    ):
        with pytest.raises(CommandError) as refusal:
            told(*arguments)
        assert str(refusal.value) == sentence
    assert "a robots.txt that Weir itself asks for" in told(robots)
