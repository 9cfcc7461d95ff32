"""Outcomes are stored once, by the slot's holder alone, in bulk; one that the database refuses does not harm others."""

import os
import time
import zlib
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import psycopg
import pytest
from django.db import connection
from django.db.models import F
from structlog.testing import capture_logs

from tests.integration.conftest import (
    InThreads,
    Message,
    claimed,
    database_now,
    dispatch_message,
)
from tests.integration.fetching import SITE, running
from tests.unit.fetcher.test_outcomes import lost_with
from weir.ratelimit import site_settings, slots
from weir.ratelimit.models import Site, Slot
from weir.ratelimit.sites import SitesLocked
from weir.workers.fetches.cancelling import cancel
from weir.workers.fetches.dispatch import dispatch
from weir.workers.fetches.enqueue import request_fetches
from weir.workers.fetches.fetcher.results import store as storing
from weir.workers.fetches.fetcher.results.outcomes import judge
from weir.workers.fetches.fetcher.results.store import store, store_surely
from weir.workers.fetches.jobs import Answer, Disallowed, Failure, FetchOutcome, Job, Snoozed
from weir.workers.fetches.maintenance.sweep import sweep
from weir.workers.fetches.models import Fetch, FetchBody, FetchState, RobotsFile
from weir.workers.tracing import correlation

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("messages", "long_lookahead")]


def done(job: Job, **fields: Any) -> FetchOutcome:
    whole: dict[str, Any] = {
        "status_code": 200,
        "headers": '[["Server", "fake"]]',
        "etag": '"v1"',
        "last_modified": "Sat, 21 Nov 2026 10:00:00 GMT",
        "lateness_ms": 1.5,
        "elapsed_ms": 20.0,
        "content": b"<html>",
    }
    return FetchOutcome(fetch_id=job.fetch_id, slot_id=job.slot_id, state=FetchState.DONE, **{**whole, **fields})


def queued(job: Job, **fields: Any) -> FetchOutcome:
    return FetchOutcome(fetch_id=job.fetch_id, slot_id=job.slot_id, state=FetchState.QUEUED, **fields)


def failed(job: Job, **fields: Any) -> FetchOutcome:
    return FetchOutcome(
        fetch_id=job.fetch_id, slot_id=job.slot_id, state=FetchState.FAILED, **{"error": "refused", **fields}
    )


def everything() -> list[Any]:
    return [list(model.objects.order_by("pk").values()) for model in (Fetch, FetchBody, Slot, Site)]


# --- what is stored -----------------------------------------------------------------------------------------------


def test_a_result_is_stored_whole() -> None:
    """State, times, headers, validators and body are there to be read, and the slot is finished."""
    [job] = running()
    store([done(job)])
    fetch, slot = Fetch.objects.select_related("body").get(), Slot.objects.get()
    assert (fetch.state, fetch.attempts, fetch.status_code, fetch.error) == (FetchState.DONE, 1, 200, "")
    assert (fetch.headers, fetch.etag) == ([["Server", "fake"]], '"v1"')
    assert (fetch.lateness_ms, fetch.elapsed_ms) == (1.5, 20.0)
    assert fetch.started_at == slot.start_time + timedelta(milliseconds=1.5)
    assert (fetch.lease_until, fetch.slot_id) == (None, job.slot_id)
    assert fetch.finished_at is not None
    assert bytes(fetch.body.content) == b"<html>"
    assert slot.finished_at is not None
    assert slot.released_at is None


@pytest.mark.parametrize("content", [b"", b"\0\xff" * 100, bytes(5 * 2**20)])
def test_a_body_of_any_bytes_is_stored(content: bytes) -> None:
    """Empty, binary and as large as the cap."""
    [job] = running()
    store([done(job, content=content)])
    assert bytes(FetchBody.objects.get().content) == content


def test_a_failure_has_no_body() -> None:
    """A failed fetch says why, and nothing else is kept."""
    [job] = running()
    store([failed(job, slot_used=False)])
    fetch = Fetch.objects.get()
    assert (fetch.state, fetch.error, fetch.attempts) == (FetchState.FAILED, "refused", 1)
    assert fetch.finished_at is not None
    assert not FetchBody.objects.exists()
    assert not Slot.objects.filter(released_at=None).exists()


def test_what_came_of_a_broken_answer_is_kept_and_marked() -> None:
    """Then a failed fetch has a body, status and headers, and says why it is not whole; `done` ones may be marked."""
    broken, odd, whole = running(3)
    cut = "the compressed body ends too early"
    store(
        [
            failed(broken, status_code=200, headers='[["Server", "fake"]]', content=b"<ht", error=cut, incomplete=cut),
            done(odd, incomplete="taken as it came"),
            done(whole),
        ]
    )
    fetch = Fetch.objects.get(pk=broken.fetch_id)
    assert (fetch.state, fetch.status_code, fetch.error, fetch.incomplete) == (FetchState.FAILED, 200, cut, cut)
    assert (fetch.content, fetch.headers) == (b"<ht", [["Server", "fake"]])
    assert dict(Fetch.objects.filter(state=FetchState.DONE).values_list("pk", "incomplete")) == {
        odd.fetch_id: "taken as it came",
        whole.fetch_id: "",
    }


def test_headers_are_stored_the_same_whatever_their_bytes_are() -> None:
    """Every byte but NUL is a character of Latin-1; how JSON is sent to PostgreSQL does not matter."""
    [job] = running()
    value = bytes(range(1, 256))
    answer = Answer(job=job, status_code=200, headers=((b"X", value),), body=b"", lateness_ms=1.0, elapsed_ms=1.0)
    store([judge(answer, max_body=1, chance=0.0)])
    assert Fetch.objects.get().headers == [["X", value.decode("latin-1")]]


def test_a_retry_goes_back_to_the_queue(messages: list[Message]) -> None:
    """The attempt counts, the fetch is due after its back-off, and its site from then on."""
    [job] = running()
    messages.clear()
    store([queued(job, delay_s=30.0, error="the site answered 503", status_code=503, lateness_ms=1.0)])
    fetch, now = Fetch.objects.get(), database_now()
    assert (fetch.state, fetch.attempts, fetch.slot_id, fetch.lease_until) == (FetchState.QUEUED, 1, None, None)
    assert (fetch.error, fetch.status_code, fetch.finished_at) == ("the site answered 503", 503, None)
    assert timedelta(seconds=25) < fetch.not_before - now <= timedelta(seconds=30)
    assert Slot.objects.get().finished_at is not None
    site = Site.objects.get()
    assert (site.has_backlog, site.due_at) == (False, fetch.not_before)
    assert messages == []


def test_what_was_given_back_is_due_at_once_and_counts_nothing() -> None:
    """A missed run changes neither attempts nor age, and its slot is given back."""
    [job] = running()
    before = Fetch.objects.get()
    store([queued(job, attempted=False, slot_used=False)])
    fetch = Fetch.objects.get()
    assert (fetch.state, fetch.attempts, fetch.not_before) == (FetchState.QUEUED, 0, before.not_before)
    assert not Slot.objects.filter(released_at=None).exists()


@pytest.mark.parametrize("event", [Snoozed, partial(Failure, error="no connection"), partial(Disallowed, error="no")])
def test_a_successor_in_a_slot_that_its_holder_gives_back_is_queued_again(event: Any) -> None:
    """The fetcher gave the slot back before it knew of the successor: the slot stays empty, the site is active."""
    first, chosen = running(2, rate="1/s")
    [successor] = request_fetches([f"https://{SITE}/successor"])
    let_go = judge(event(job=chosen), max_body=1, chance=0.0)
    assert cancel(chosen.fetch_id)
    successor.refresh_from_db()
    assert (successor.state, successor.slot_id) == (FetchState.RUNNING, chosen.slot_id)
    Site.objects.update(has_backlog=False)
    store_surely([let_go])
    successor.refresh_from_db()
    assert (successor.state, successor.slot_id, successor.lease_until) == (FetchState.QUEUED, None, None)
    assert successor.attempts == 0
    assert Site.objects.get().has_backlog
    assert Fetch.objects.get(pk=first.fetch_id).state == FetchState.RUNNING


def test_what_was_given_back_costs_a_slow_site_a_minute() -> None:
    """A fetcher that was stopped, or fell behind, has requested nothing."""
    [job] = running(rate="1/d")
    store([judge(Snoozed(job=job), max_body=1, chance=0.0)])
    assert slots.estimate(SITE) <= slots.RETRY


@pytest.mark.parametrize("event", [Snoozed, partial(Failure, error="unexpected")])
def test_a_slot_in_which_a_request_was_written_is_used(event: Any) -> None:
    """However the request ended, the next one comes an interval later."""
    [job] = running(rate="1/d")
    store([judge(event(job=job, slot_used=True), max_body=1, chance=0.0)])
    assert Slot.objects.get().finished_at is not None
    assert slots.estimate(SITE) > 80_000


def test_what_was_claimed_since_it_was_found_lost_is_left_to_its_holder() -> None:
    """Sweep looks first and takes back afterwards; a message that came in between has a lease of its own."""
    [job] = running()
    found = replace(lost_with(was_running=False), fetch_id=job.fetch_id, slot_id=job.slot_id)
    assert store([found]) == set()
    assert Fetch.objects.get().state == FetchState.RUNNING
    Fetch.objects.update(lease_until=database_now())
    assert store([found]) == {job.fetch_id}


def test_a_success_after_a_retry_clears_what_was_said_before() -> None:
    """The row of a done fetch tells of the attempt that succeeded, and of how many there were."""
    [job] = running()
    store([queued(job, error="the site answered 503", status_code=503)])
    Site.objects.update(next_start=database_now())
    dispatch()
    again = claimed(job.fetch_id)
    store([done(again)])
    fetch = Fetch.objects.get()
    assert (fetch.state, fetch.attempts, fetch.error, fetch.status_code) == (FetchState.DONE, 2, "", 200)


def test_a_redirect_is_queued_at_the_site_of_its_target(messages: list[Message]) -> None:
    """A new site is created, the hop does not count as an attempt, and the requested URL stays visible."""
    [job] = running()
    messages.clear()
    store([queued(job, attempted=False, hop_url="https://new.example/x", hop_host="new.example", status_code=302)])
    fetch = Fetch.objects.select_related("site").get()
    assert fetch.site is not None
    assert (fetch.site.name, fetch.hop_url, fetch.url) == ("new.example", "https://new.example/x", f"https://{SITE}/0")
    assert (fetch.state, fetch.attempts, fetch.redirects) == (FetchState.QUEUED, 0, 1)
    assert fetch.site.has_backlog
    assert messages == [dispatch_message("new.example")]
    dispatch()
    hop = claimed(fetch.pk)
    assert (hop.url, hop.redirects) == ("https://new.example/x", 1)


def test_a_redirect_goes_to_a_site_that_covers_its_target() -> None:
    """Hops follow the same rule as URLs that are asked for."""
    site_settings.set_rate("new.example", "2/s", covers_subdomains=True)
    [job] = running()
    store([queued(job, attempted=False, hop_url="https://www.new.example/", hop_host="www.new.example")])
    assert Fetch.objects.get().site == Site.objects.get(name="new.example")


def test_many_outcomes_are_stored_in_one_call(messages: list[Message]) -> None:
    """Results, failures, retries and hops together, and one message for all the sites that woke up."""
    jobs = running(40)
    messages.clear()
    store(
        [done(job) for job in jobs[:10]]
        + [failed(job) for job in jobs[10:20]]
        + [queued(job, delay_s=1.0) for job in jobs[20:30]]
        + [
            queued(job, attempted=False, hop_url=f"https://hop-{number}.example/", hop_host=f"hop-{number}.example")
            for number, job in enumerate(jobs[30:])
        ]
    )
    states = [
        Fetch.objects.filter(state=state).count() for state in (FetchState.DONE, FetchState.FAILED, FetchState.QUEUED)
    ]
    assert states == [10, 10, 20]
    assert Site.objects.filter(has_backlog=True).count() == 10
    assert Site.objects.get(name=SITE).due_at is not None
    assert messages == [dispatch_message(*(f"hop-{number}.example" for number in range(10)))]
    store([])


@pytest.mark.parametrize("final", [done, failed])
def test_on_done_is_called_once_the_end_is_stored(final: Any, messages: list[Message]) -> None:
    """`on_done` is sent with the id when the fetch has ended, and the row records that it was sent."""
    first, second = running(2, on_done="shop.tasks.arrived")
    messages.clear()
    store([final(first), queued(second, delay_s=1.0)])
    assert messages == [("shop.tasks.arrived", (first.fetch_id,))]
    noted = dict(Fetch.objects.values_list("pk", "on_done_called_at"))
    assert noted[first.fetch_id] is not None
    assert noted[second.fetch_id] is None


def test_a_call_that_the_broker_did_not_take_is_not_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sweep calls again; the result itself is stored."""
    [job] = running(on_done="shop.tasks.arrived")
    monkeypatch.setattr("weir.workers.fetches.on_done.calls.call", lambda *_arguments, **_headers: False)
    store([done(job)])
    fetch = Fetch.objects.get()
    assert (fetch.state, fetch.on_done_called_at) == (FetchState.DONE, None)


# --- the fence ----------------------------------------------------------------------------------------------------


def taken_back() -> Job:
    """Make a fetch that sweep took back from its holder, and return the holder's job."""
    [job] = running()
    Fetch.objects.update(lease_until=F("lease_until") - timedelta(hours=1))
    assert sweep() == 1
    return job


@pytest.mark.parametrize("late", [done, failed, queued])
def test_the_late_result_of_a_fetch_that_was_taken_back_changes_nothing(late: Any) -> None:
    """A fetcher that lost the lease has lost the fetch: what it stores afterwards has no effect."""
    job = taken_back()
    before = everything()
    store([late(job)])
    assert everything() == before
    assert Fetch.objects.get().state == FetchState.QUEUED


@pytest.mark.parametrize("late", [done, failed, queued])
def test_a_late_result_does_not_touch_the_new_holders_fetch(late: Any) -> None:
    """The slot is the fence: the fetch does not have the former holder's slot any more, although it runs again."""
    job = taken_back()
    Fetch.objects.update(not_before=database_now())
    Site.objects.update(next_start=database_now(), has_backlog=True, due_at=None)
    dispatch()
    new_job = claimed(job.fetch_id)
    assert new_job.slot_id != job.slot_id
    before = everything()
    store([late(job)])
    assert everything() == before
    store([done(new_job, content=b"new")])
    assert Fetch.objects.get().state == FetchState.DONE
    assert bytes(FetchBody.objects.get().content) == b"new"


def test_storing_twice_is_storing_once(messages: list[Message]) -> None:
    """A writer that does not know whether its statement was committed repeats it safely."""
    jobs = running(3, on_done="shop.tasks.arrived")
    outcomes = [done(jobs[0]), failed(jobs[1]), queued(jobs[2], delay_s=5.0)]
    store(outcomes)
    before = everything()
    messages.clear()
    store(outcomes)
    assert everything() == before
    assert messages == []


def test_two_that_store_the_same_fetch_change_it_once(in_threads: InThreads, messages: list[Message]) -> None:
    """Sweep and a late holder at the same moment: one of them is first, and the other changes nothing."""
    jobs = running(50, on_done="shop.tasks.arrived")
    messages.clear()
    in_threads(2, lambda number: store_surely([(done if number else failed)(job) for job in jobs]))
    assert Fetch.objects.filter(attempts=1).count() == 50
    assert FetchBody.objects.count() == Fetch.objects.filter(state=FetchState.DONE).count()
    assert sorted(messages) == sorted(("shop.tasks.arrived", (job.fetch_id,)) for job in jobs)


# --- what cannot be stored ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "poison",
    [
        {"headers": '["\\u0000"]'},
        {"headers": "no JSON"},
        {"etag": "\0"},
        {"etag": "\ud800"},
        {"error": "\ud800\0"},
        {"status_code": None},
        {"status_code": 10**6},
        {"hop_url": "https://x/", "hop_host": "no site at all"},
    ],
)
def test_an_outcome_that_the_database_refuses_fails_alone(poison: dict[str, Any], messages: list[Message]) -> None:
    """The others are stored as they are; the refused one is a stated failure, and nothing waits for ever."""
    jobs = running(7, on_done="shop.tasks.arrived")
    messages.clear()
    outcomes = [done(job) for job in jobs]
    outcomes[4] = replace(outcomes[4], **poison)
    store_surely(outcomes)
    refused = Fetch.objects.get(pk=jobs[4].fetch_id)
    assert refused.state == FetchState.FAILED
    assert "refused the result" in refused.error
    others = Fetch.objects.exclude(pk=refused.pk)
    assert set(others.values_list("state", "etag", "attempts")) == {(FetchState.DONE, '"v1"', 1)}
    assert FetchBody.objects.count() == 6
    assert sorted(messages) == sorted(("shop.tasks.arrived", (job.fetch_id,)) for job in jobs)


def test_the_line_about_a_refused_outcome_has_the_id_of_what_asked_for_the_fetch() -> None:
    """The writer serves many: the id comes with the outcome."""
    with correlation.bound("request-7"):
        [job] = running()
    answer = Answer(job=job, status_code=200, headers=(), body=b"", lateness_ms=1.0, elapsed_ms=1.0)
    with capture_logs() as logs:
        store_surely([replace(judge(answer, max_body=100, chance=0.0), etag="\0")])
    [line] = [line for line in logs if line["event"] == "outcome_refused"]
    assert (line["fetch"], line["correlation_id"]) == (job.fetch_id, "request-7")


def test_results_wait_for_a_database_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lost connection is not the end of a result: it is stored when the database answers again."""
    monkeypatch.setattr(storing, "DATABASE_RETRY_S", 0.01)
    [job] = running()
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        pid = cursor.fetchone()[0]
    with psycopg.connect(**{**connection.get_connection_params(), "cursor_factory": psycopg.Cursor}) as killer:
        killer.execute("SELECT pg_terminate_backend(%s)", [pid])
    store_surely([done(job)])
    assert Fetch.objects.get().state == FetchState.DONE


def test_what_follows_from_a_result_is_never_taken_for_a_result_that_is_refused(
    monkeypatch: pytest.MonkeyPatch, messages: list[Message]
) -> None:
    """Results are committed by then: they stay as they are, and sweep makes the calls that were not made."""
    jobs = running(2, on_done="shop.tasks.arrived")
    messages.clear()
    with monkeypatch.context() as patched, capture_logs() as logs:
        patched.setattr(storing, "call_on_done", lambda _ended: int("no number"))
        store_surely([done(job) for job in jobs])
    assert [line["event"] for line in logs if line["log_level"] == "error"] == ["what_follows_left_to_sweep"]
    assert set(Fetch.objects.values_list("state", "error")) == {(FetchState.DONE, "")}
    Fetch.objects.update(finished_at=F("finished_at") - timedelta(hours=1))
    sweep()
    assert sorted(messages) == sorted(("shop.tasks.arrived", (job.fetch_id,)) for job in jobs)


def test_a_redirect_to_a_site_that_is_locked_is_asked_again_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """This is not a wait for a robots.txt, which would be over immediately if that is known."""

    def locked(*_args: Any, **_options: Any) -> None:
        raise SitesLocked

    [job] = running()
    RobotsFile.objects.update(expires_at=F("expires_at") + timedelta(days=1))
    monkeypatch.setattr(storing, "sites_of", locked)
    store_surely([queued(job, attempted=False, hop_url="https://new.example/", hop_host="new.example")])
    fetch = Fetch.objects.get(is_robots=False)
    assert (fetch.state, fetch.due_since, fetch.error) == (FetchState.QUEUED, None, "waits for a site of new.example")
    assert timedelta(seconds=4) < fetch.not_before - database_now() <= timedelta(seconds=storing.SITES_RETRY_S)


def test_large_bodies_cost_the_fetcher_little() -> None:
    """Bodies go to the database as they are: to make text of them, under Python's lock, would hold up the loop."""
    jobs = running(2)
    bodies = [os.urandom(4 * 2**20) for _ in jobs]
    outcomes = [
        judge(
            Answer(job=job, status_code=200, headers=(), body=body, lateness_ms=1.0, elapsed_ms=1.0),
            max_body=5 * 2**20,
            chance=0.5,
        )
        for job, body in zip(jobs, bodies, strict=True)
    ]
    began_at = time.process_time()
    store(outcomes)
    stored_s = time.process_time() - began_at
    for body in bodies:
        zlib.compress(body, 1)
    packed_s = time.process_time() - began_at - stored_s
    assert stored_s < packed_s / 2  # as text, it takes longer than to pack them
    assert [bytes(stored.content) for stored in FetchBody.objects.order_by("pk")] == bodies
