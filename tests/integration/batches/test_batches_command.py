"""`manage.py batches`, and the lists and the API of batches: people and programs see, cancel, retry and close."""

import json
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db.models.functions import Now
from django.utils import timezone

from tests.integration.conftest import claim
from tests.programs import Program, token
from weir.ratelimit import site_settings
from weir.ratelimit.models import Slot
from weir.workers.audit.models import Entry
from weir.workers.fetches.batches import counting
from weir.workers.fetches.batches.counts import batch_counts, id_of
from weir.workers.fetches.dispatch import dispatch
from weir.workers.fetches.enqueue import request_fetches
from weir.workers.fetches.models import Batch, Fetch
from weir.workers.fetches.on_done import unknown
from weir.workers.fetches.reports import batches, fetch_filters
from weir.workers.fetches.reports.batches import outlook
from weir.workers.fetches.reports.fetch_list import fetch_list
from weir.workers.history.reports import batch_failures

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("messages", "long_lookahead")]

NAME = "import-7"
FAST, SLOW = "fast.example", "slow.example"


def run(*words: str, command: str = "batches") -> str:
    """Return what the command prints."""
    out = StringIO()
    call_command(command, *words, stdout=out)
    return out.getvalue()


def data(*words: str, command: str = "batches") -> Any:
    return json.loads(run(*words, "--json", command=command))


@pytest.fixture
def batch() -> int:
    """Return a batch with 30 queued fetches at two sites, two failed ones and a done one; and ask for other fetches."""
    site_settings.set_rate(FAST, "10/s")
    site_settings.set_rate(SLOW, "1/m")
    urls = [f"https://{FAST}/{number}" for number in range(20)] + [f"https://{SLOW}/{number}" for number in range(13)]
    ids = request_fetches(urls, batch=NAME, more_to_come=True).ids
    request_fetches(urls[:3], batch="other")
    request_fetches(urls[:3])
    ended = {"finished_at": Now(), "attempts": 1}
    Fetch.objects.filter(pk=ids[0]).update(state="done", status_code=200, **ended)
    Fetch.objects.filter(pk=ids[1]).update(state="failed", error="no connection within 10 s", **ended)
    Fetch.objects.filter(pk=ids[2]).update(state="failed", error="the site answered 500", **ended)
    return id_of(NAME)


def test_a_batch_is_shown_cancelled_retried_and_closed(batch: int) -> None:
    """Each act is in the audit trail; what has started is told."""
    assert [(each["name"], each["unfinished"]) for each in data("list", "--state", "running")["batches"]] == [
        ("other", 3)
    ]
    page = data("list", "--limit", "1")
    assert [each["name"] for each in data("list", "--after", page["next"])["batches"]] == [NAME]
    assert "33: 30 unfinished, 1 done, 2 failed, 0 cancelled" in run("show", NAME)
    assert run("retry", NAME, "--limit", "1") == "1 fetch queued again.\n"
    assert dispatch() > 10
    reserved = Fetch.objects.filter(batch=batch, state="reserved")
    jobs = claim(list(reserved.filter(site__name=SLOW).values_list("pk", flat=True)))
    Slot.objects.filter(pk__in=[job.slot_id for job in jobs]).update(start_time=Now())  # too late
    assert reserved.exists()
    cancelled = data("cancel", NAME, "--why", "the wrong list")
    assert cancelled == {"cancelled": 31 - len(jobs), "unfinished": len(jobs)}
    assert batch_counts(NAME).unfinished == len(jobs) > 0
    assert not Fetch.objects.filter(batch=batch, state__in=["queued", "reserved"]).exists()
    assert Fetch.objects.filter(batch__name="other", state="cancelled").count() == 0
    assert run("close", NAME) == "It is closed.\n"
    assert run("close", NAME) == "It was not open: nothing was changed.\n"
    entries = Entry.objects.filter(target=f"batch {batch}")
    assert {entry.action for entry in entries} == {"batches.retry", "batches.cancel", "batches.close"}
    counted = sum((entry.after or {}).get("cancelled", 0) for entry in entries)
    assert counted == cancelled["cancelled"]
    for words in (("show", "gone"), ("cancel", "gone"), ("retry", "gone"), ("close", "gone")):
        with pytest.raises(CommandError, match="There is no batch 'gone'"):
            run(*words)


def test_the_forecast_is_that_of_the_slowest_site(batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its fetches that are not due before, too; unknown while the site is paused. It says if it is of a part."""
    expected = outlook(batch)
    assert [site.site for site in expected.sites] == [SLOW, FAST]
    assert expected.ends_in_s is not None
    assert 11 * 60 < expected.ends_in_s < 14 * 60
    assert f"s at the soonest, at {SLOW}." in run("show", NAME)
    Fetch.objects.filter(batch=batch, url=f"https://{FAST}/19").update(not_before=Now() + timedelta(days=1))
    assert outlook(batch).ends_in_s == pytest.approx(86_400, abs=60)
    site_settings.pause(SLOW)
    assert not outlook(batch).is_known
    assert data("show", NAME)["ends_in_s"] is None
    assert f"{SLOW} is paused, does not answer, or is asked" in run("show", NAME)
    dispatch()
    assert 0 < outlook(batch).looked_at < batch_counts(NAME).unfinished
    assert "looked at" not in run("show", NAME)
    monkeypatch.setattr(batches, "LOOKED_AT", 5)
    assert "Only the newest 5 queued fetches were looked at." in run("show", NAME)
    assert [tuple(each) for each in batch_failures(batch)] == [("server error", 1), ("timeout", 1)]


def test_the_fetches_of_a_batch_are_listed_and_retried(batch: int) -> None:
    """State by state, page by page, with other filters; by the command `fetches`, too."""
    filters = fetch_filters.read({"batch": [NAME]}, timezone.now())
    seen: list[int] = []
    states: list[str] = []
    cursor = None
    while cursor or not seen:
        page = fetch_list(filters, cursor, most=7)
        seen += [fetch.id for fetch in page.fetches]
        states += [fetch.state for fetch in page.fetches]
        cursor = page.next
    assert sorted(seen) == sorted(Fetch.objects.filter(batch=batch).values_list("pk", flat=True))
    assert [state for place, state in enumerate(states) if states[place - 1 : place] != [state]] == [
        "queued",
        "failed",
        "done",
    ]
    narrow = fetch_filters.read({"batch": [NAME], "state": ["failed"], "error": ["500"]}, timezone.now())
    assert [fetch.error for fetch in fetch_list(narrow).fetches] == ["the site answered 500"]
    by_url = fetch_filters.read({"batch": [NAME], "url": [f"https://{FAST}/2"]}, timezone.now())
    assert len(fetch_list(by_url).fetches) == 1
    listed = data("list", "--batch", NAME, "--state", "failed", command="fetches")["fetches"]
    assert [fetch["state"] for fetch in listed] == ["failed", "failed"]
    assert run("show", str(listed[0]["id"]), command="fetches").count(NAME) == 1
    assert data("retry", "--batch", NAME, "--error", "500", command="fetches")["queued"] == 1
    with pytest.raises(CommandError, match="There is no batch 'gone'"):
        run("list", "--batch", "gone", command="fetches")
    assert batch_counts(NAME).failed == 1


def test_a_program_fills_a_batch_of_its_own_and_sees_how_far_it_is(batch: int) -> None:
    """No other program's, nor web code's, has its name."""
    program = Program(token())
    sent = {"urls": [f"https://{FAST}/a", "nonsense"], "batch": NAME, "more_to_come": True}
    accepted = program.call("POST", "/fetches", sent)
    assert accepted.status_code == 202, accepted.text
    own = accepted.json()["batch"]
    assert own != batch
    shown = program.call("GET", f"/batches/{own}").json()
    assert (shown["name"], shown["state"], shown["unfinished"], shown["failed"]) == (f"api:shop {NAME}", "open", 1, 1)
    assert [site["site"] for site in shown["sites"]] == [FAST]
    listed = program.call("GET", f"/fetches?batch=api:shop%20{NAME}").json()["fetches"]
    assert [fetch["state"] for fetch in listed] == ["queued", "failed"]
    assert program.call("GET", f"/fetches/{listed[0]['id']}").json()["batch_id"] == own
    assert program.call("POST", "/fetches", {"urls": [], "batch": NAME}).status_code == 202
    assert program.call("DELETE", f"/batches/{own}").json() == {"cancelled": 1, "unfinished": 0}
    counting.settle()
    assert program.call("GET", f"/batches/{own}").json()["state"] == "ended"
    filtered = {"filter": {"batch": NAME, "error": "500"}, "expected": 1}
    assert program.call("POST", "/fetch-retries", filtered).json()["queued"] == 1


def test_a_list_has_the_batch_of_a_name(batch: int) -> None:
    assert [found["id"] for found in data("list", "--name", NAME)["batches"]] == [batch]
    assert "No batches." in run("list", "--name", "import")


def test_a_task_that_a_worker_does_not_know_is_told(batch: int) -> None:
    """With what to do, as for a fetch."""
    Batch.objects.filter(pk=batch).update(on_done="shop.tasks.arived", is_open=False)
    assert "shop.tasks.arived at its end" in run("show", NAME)
    Batch.objects.filter(pk=batch).update(ended_at=Now())
    Fetch.objects.filter(batch=batch).update(state="done", status_code=200, finished_at=Now())
    assert "shop.tasks.arived within seconds" in run("show", NAME)
    unknown.record_batch(batch, "shop.tasks.arived")
    text = run("show", NAME)
    assert "does not know this task; define this task, and restart the workers of its queue" in " ".join(text.split())
    again = Batch.objects.get(pk=batch).on_done_again_at
    assert again is not None
    assert data("show", NAME)["on_done_again_at"] == again.isoformat()
