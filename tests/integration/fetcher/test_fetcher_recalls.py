"""Recalls reach what a fetcher holds, and one site does not use more than its share."""

import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path

import psycopg
import pytest
from django.db import OperationalError
from pytest_django import Settings

from demo.fakes import judge, site_log, sites
from tests.answering import answering
from tests.integration.conftest import Eventually
from tests.integration.fetching import fetched, reserve_all
from tests.waiting import in_time
from weir.ratelimit import site_settings, slots
from weir.ratelimit.models import Site, Slot
from weir.ratelimit.pacing import CONFIRMED_FOR_S, Confirmation, Run
from weir.ratelimit.slot_rows import Recall
from weir.workers.fetches.cancelling import cancel
from weir.workers.fetches.enqueue import request_fetch, request_fetches
from weir.workers.fetches.fetcher import recall_watcher, successors
from weir.workers.fetches.fetcher.claim import successors_of
from weir.workers.fetches.fetcher.fetcher import Fetcher
from weir.workers.fetches.fetcher.in_flight import BatchInFlight, HeldJob, Stage
from weir.workers.fetches.jobs import Job
from weir.workers.fetches.models import Fetch, FetchBody, FetchState

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("messages")]


PATIENT = timedelta(seconds=2)  # a grace with which a machine that stands still misses no slot


def site(
    running: sites.Sites, place: int, rate: str, max_concurrency: int | None = None, grace: timedelta | None = None
) -> str:
    name = f"{running.hosts[place]}:{running.port}"
    site_settings.set_rate(name, rate, max_concurrency=max_concurrency, grace=grace)
    return name


def paths(running: sites.Sites, place: int = 0) -> list[str]:
    return [arrival.path for arrival in site_log.read_arrivals(running.log)[0] if arrival.host == running.hosts[place]]


def job(number: int) -> Job:
    run = Run(interval_s=1.0, burst=1, start_until=0.0, use_until=0.0, confirmation=Confirmation(asked_at=0.0))
    return Job(
        fetch_id=number,
        url="http://site.example/",
        redirects=0,
        attempts=0,
        max_attempts=5,
        site_id=1,
        site="site.example",
        slot_id=number,
        start_at=0.0,
        run=run,
    )


def counts() -> set[tuple[str, int]]:
    return set(Fetch.objects.values_list("state", "attempts"))


def test_a_refusal_stops_the_whole_site_and_no_other(running_sites: sites.Sites, fetcher: Fetcher) -> None:
    """After a 429 that site gets no more requests: waiting fetches go back without an attempt, the site backs off."""
    refusing, other = (site(running_sites, place, "10/s", grace=PATIENT) for place in (0, 1))
    request_fetch(running_sites.url(0, "/status/429"), priority=1)
    request_fetches([running_sites.url(place, f"/ok/{n}") for place in (0, 1) for n in range(8)])
    fetcher.run_batch(reserve_all())
    fetcher.close(1.0)
    assert paths(running_sites) == ["/status/429"]
    in_time(len(paths(running_sites, 1)) >= 6, "fewer than 6 of 8 requests of the other site had their slots used")
    assert counts() == {(FetchState.QUEUED, 1), (FetchState.QUEUED, 0), (FetchState.DONE, 1)}
    refused = Site.objects.get(name=refusing)
    assert refused.backed_off_until is not None
    assert refused.recalled_at is not None
    assert refused.backed_off_until - refused.recalled_at >= timedelta(seconds=5)
    assert refused.backoff_level == 1
    assert Site.objects.get(name=other).backed_off_until is None


def test_a_recall_by_another_process_takes_effect_at_once(
    running_sites: sites.Sites, fetcher: Fetcher, eventually: Eventually
) -> None:
    """A pause reaches what a fetcher holds within a fraction of a second."""
    name = site(running_sites, 0, "5/s")
    request_fetches([running_sites.url(0, f"/ok/{n}") for n in range(10)])
    thread = threading.Thread(target=fetcher.run_batch, args=(reserve_all(),))
    thread.start()
    eventually(lambda: len(paths(running_sites)) >= 2, "the first requests")
    site_settings.pause(name)
    paused_ns = time.time_ns()
    thread.join(1)
    assert not thread.is_alive(), "its jobs wait for nothing any more"
    fetcher.close(1.0)
    assert all(arrival.at_ns < paused_ns + 200_000_000 for arrival in site_log.read_arrivals(running_sites.log)[0])
    assert counts() == {(FetchState.QUEUED, 0), (FetchState.DONE, 1)}


def test_a_fetcher_that_cannot_ask_starts_nothing(
    running_sites: sites.Sites,
    fetcher: Fetcher,
    other_connection: psycopg.Connection[tuple[object, ...]],
    eventually: Eventually,
) -> None:
    """While PostgreSQL does not answer, a recall might be missed: slots are left unused."""
    site(running_sites, 0, "5/s")
    request_fetches([running_sites.url(0, f"/ok/{n}") for n in range(8)])
    slot_ids = reserve_all()
    thread = threading.Thread(target=fetcher.run_batch, args=(slot_ids,))
    thread.start()
    eventually(lambda: paths(running_sites), "the first request")
    with other_connection.transaction():
        other_connection.execute("LOCK TABLE weir_ratelimit_site IN ACCESS EXCLUSIVE MODE")
        locked_ns = time.time_ns()
        thread.join(5)
        assert not thread.is_alive()
    fetcher.close(3.0)
    last_ns = max(arrival.at_ns for arrival in site_log.read_arrivals(running_sites.log)[0])
    assert last_ns < locked_ns + 600_000_000
    assert 1 <= len(paths(running_sites)) < 6
    assert counts() == {(FetchState.QUEUED, 0), (FetchState.DONE, 1)}


def test_the_slot_of_a_cancelled_fetch_is_used_by_the_next(
    running_sites: sites.Sites, fetcher: Fetcher, eventually: Eventually
) -> None:
    """The fetcher drops what it holds and requests the successor in its place; nothing is requested twice or early."""
    site(running_sites, 0, "1/2s")
    request_fetch(running_sites.url(0, "/ok/first"))
    cancelled = request_fetch(running_sites.url(0, "/ok/cancelled"))
    slot_ids = reserve_all()
    successor = request_fetch(running_sites.url(0, "/ok/successor"))
    thread = threading.Thread(target=fetcher.run_batch, args=(slot_ids,))
    thread.start()
    eventually(lambda: paths(running_sites), "the first request")
    assert cancel(cancelled.pk)
    thread.join(5)
    eventually(lambda: len(paths(running_sites)) == 2, "the request in the place of the cancelled one")
    fetcher.close(1.0)
    assert paths(running_sites) == ["/ok/first", "/ok/successor"]
    assert min(judge.gaps_ns(site_log.read_arrivals(running_sites.log)[0])) >= 2_000_000_000
    successor.refresh_from_db()
    assert (successor.state, successor.slot_id) == (FetchState.DONE, slot_ids[1])
    assert Fetch.objects.get(pk=cancelled.pk).state == FetchState.CANCELLED


def test_many_slots_that_are_passed_on_at_once_are_looked_up_by_few_statements(
    fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch, eventually: Eventually
) -> None:
    """Each statement is a call of its own, so that the claimer takes messages in between."""
    statements: list[int] = []

    def look_up(jobs: list[Job]) -> list[object]:
        statements.append(len(jobs))
        return []

    passed_on = [HeldJob(job=job(number), batch=BatchInFlight([]), stage=Stage.WRITTEN) for number in range(1, 451)]
    answers = [passed_on]
    monkeypatch.setattr(successors, "successors_of", look_up)
    monkeypatch.setattr(fetcher._in_flight, "apply", lambda _recalls: answers.pop() if answers else [])
    eventually(lambda: sum(statements) == len(passed_on), "the look-ups")
    assert statements == [200, 200, 50]


def test_several_successors_take_over_at_once(
    running_sites: sites.Sites, fetcher: Fetcher, eventually: Eventually
) -> None:
    """Each in the place of its own predecessor; a slot without a successor stays empty."""
    site(running_sites, 0, "1/s", grace=PATIENT)
    fetches = request_fetches([running_sites.url(0, f"/ok/{n}") for n in range(5)])
    slot_ids = reserve_all()
    following = request_fetches([running_sites.url(0, f"/ok/successor{n}") for n in range(2)])
    thread = threading.Thread(target=fetcher.run_batch, args=(slot_ids,))
    thread.start()
    eventually(lambda: paths(running_sites), "the first request")
    for fetch in fetches[2:]:
        assert cancel(fetch.pk)
    thread.join(20)
    eventually(lambda: len(paths(running_sites)) == 4, "the requests of both successors")
    fetcher.close(1.0)
    assert {(fetch.state, fetch.slot_id) for fetch in Fetch.objects.filter(pk__in=[one.pk for one in following])} == {
        (FetchState.DONE, slot_id) for slot_id in slot_ids[2:4]
    }


def test_a_successor_that_arrives_while_the_fetcher_closes_goes_back_to_the_queue(
    running_sites: sites.Sites, fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch, eventually: Eventually
) -> None:
    """Nothing that was claimed is left behind, although the successor was looked up late."""
    asked, answers = threading.Event(), threading.Event()

    def late(jobs: list[Job]) -> object:
        found = successors_of(jobs)
        asked.set()
        assert answers.wait(30)
        return found

    monkeypatch.setattr(successors, "successors_of", late)
    site(running_sites, 0, "1/20s")
    first, cancelled = request_fetches([running_sites.url(0, f"/ok/{n}") for n in range(2)])
    slot_ids = reserve_all()
    successor = request_fetch(running_sites.url(0, "/ok/successor"))
    thread = threading.Thread(target=fetcher.run_batch, args=(slot_ids,))
    thread.start()
    eventually(lambda: Fetch.objects.get(pk=first.pk).state == FetchState.DONE, "the first result")
    assert cancel(cancelled.pk)
    assert asked.wait(20)
    closing = threading.Thread(target=fetcher.close, args=(10.0,))
    closing.start()
    closing.join(0.5)  # it has time to leave it behind
    answers.set()
    closing.join(20)
    thread.join(20)
    successor.refresh_from_db()
    assert (successor.state, successor.attempts, successor.slot_id) == (FetchState.QUEUED, 0, None)


def test_a_successor_that_cannot_be_looked_up_is_said_and_held_by_nobody(
    running_sites: sites.Sites,
    fetcher: Fetcher,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    eventually: Eventually,
) -> None:
    """Its lease ends; the fetcher goes on, and has room for as many as before."""

    def away(_jobs: list[Job]) -> None:
        raise OperationalError("the database is away")

    monkeypatch.setattr(successors, "successors_of", away)
    site(running_sites, 0, "1/2s")
    first, cancelled = request_fetches([running_sites.url(0, f"/ok/{n}") for n in range(2)])
    slot_ids = reserve_all()
    request_fetch(running_sites.url(0, "/ok/successor"))
    thread = threading.Thread(target=fetcher.run_batch, args=(slot_ids,))
    thread.start()
    eventually(lambda: Fetch.objects.get(pk=first.pk).state == FetchState.DONE, "the first result")
    assert cancel(cancelled.pk)
    eventually(lambda: "successor_not_looked_up" in caplog.text, "the log line")
    thread.join(5)
    assert not thread.is_alive()
    eventually(lambda: not fetcher._held, "the room of the cancelled fetch")
    site(running_sites, 1, "10/s")
    assert fetched(request_fetch(running_sites.url(1, "/ok/other")), fetcher).state == FetchState.DONE


def test_a_site_that_is_locked_is_backed_off_later_and_holds_up_no_other(
    running_sites: sites.Sites,
    fetcher: Fetcher,
    other_connection: psycopg.Connection[tuple[object, ...]],
    eventually: Eventually,
) -> None:
    """The recall watcher goes on asking; otherwise the fetcher would start nothing."""
    refusing, _other = (site(running_sites, place, "10/s", grace=PATIENT) for place in (0, 1))
    request_fetch(running_sites.url(0, "/status/429"))
    request_fetches([running_sites.url(1, f"/ok/{n}") for n in range(15)])
    with other_connection.transaction():
        slot_ids = reserve_all()
        other_connection.execute("SELECT FROM weir_ratelimit_site WHERE name = %s FOR UPDATE", [refusing])
        fetcher.run_batch(slot_ids)
        assert paths(running_sites) == ["/status/429"]
        assert Site.objects.get(name=refusing).backoff_level == 0
    eventually(lambda: Site.objects.get(name=refusing).backoff_level == 1, "the back-off")
    in_time(len(paths(running_sites, 1)) >= 13, "fewer than 13 of 15 requests of the other site had their slots used")


def test_what_was_recalled_while_a_fetcher_could_not_ask_is_void_however_long_that_was(
    running_sites: sites.Sites, fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch, eventually: Eventually
) -> None:
    """It asks for all that was recalled since its last answer: slots that wait for long are void, too."""
    monkeypatch.setattr(recall_watcher, "WINDOW", 0.1)
    name = site(running_sites, 0, "1/s")
    site_settings.set_rate(name, "1/s", grace=timedelta(minutes=1))
    request_fetches([running_sites.url(0, f"/ok/{n}") for n in range(3)])
    connected, recalls = threading.Event(), slots.recalls

    def cut_off(window_s: float) -> list[Recall]:
        if not connected.is_set():
            raise OperationalError("cut off")
        return recalls(window_s)

    monkeypatch.setattr(slots, "recalls", cut_off)
    cut_off_at = time.monotonic()
    eventually(lambda: time.monotonic() > cut_off_at + CONFIRMED_FOR_S, "the last answer to be too old")
    thread = threading.Thread(target=fetcher.run_batch, args=(reserve_all(),))
    thread.start()
    eventually(lambda: Fetch.objects.filter(state=FetchState.RUNNING).count() == 3, "all to be claimed")
    site_settings.pause(name)
    paused_at = time.monotonic()
    eventually(lambda: time.monotonic() > paused_at + 1, "the recall to be a while ago")
    connected.set()
    thread.join(10)
    assert not thread.is_alive(), "nothing is held any more"
    assert paths(running_sites) == []


def test_a_request_that_is_given_up_when_the_fetcher_stops_has_used_its_slot(
    running_sites: sites.Sites, fetcher: Fetcher, eventually: Eventually
) -> None:
    """The site has seen it: the next one comes an interval later, whichever fetcher makes it."""
    name = site(running_sites, 0, "1/h")
    request_fetch(running_sites.url(0, "/slow/60000/1"))
    fetcher.run_batch(reserve_all())
    eventually(lambda: paths(running_sites), "the request")
    fetcher.close(0.1)
    assert counts() == {(FetchState.QUEUED, 0)}
    assert Slot.objects.get().finished_at is not None
    assert slots.estimate(name) > 3_000


def test_a_run_has_no_more_in_flight_than_it_may(running_sites: sites.Sites, fetcher: Fetcher) -> None:
    """The third request waits until one of two has been answered, although its slot has come."""
    site(running_sites, 0, "100/s", max_concurrency=2)
    fetches = request_fetches([running_sites.url(0, f"/slow/300/{n}") for n in range(6)])
    for fetch in fetches:
        assert fetched(fetch, fetcher).state == FetchState.DONE
    at_ns = [arrival.at_ns for arrival in site_log.read_arrivals(running_sites.log)[0]]
    assert len(at_ns) == 6
    assert all(third - first >= 300_000_000 for first, third in zip(at_ns, at_ns[2:], strict=False))
    assert any(second - first < 250_000_000 for first, second in pairwise(at_ns))


def test_a_site_that_hangs_uses_up_its_share_only(
    running_sites: sites.Sites, fetcher: Fetcher, settings: Settings
) -> None:
    """Unanswered requests to one site may be a fifth of two fifths of what a process may hold; others go on."""
    settings.WEIR_FETCH_MAX_IN_FLIGHT = 50
    for place in (0, 1):
        site(running_sites, place, "100/s", grace=timedelta(seconds=1))  # shorter than the answers take
    request_fetches([running_sites.url(0, f"/slow/1500/{n}") for n in range(10)])
    others = request_fetches([running_sites.url(1, f"/ok/{n}") for n in range(10)])
    fetcher.run_batch(reserve_all())
    assert len(paths(running_sites, 0)) == 4
    for other in others:
        assert fetched(other, fetcher).state == FetchState.DONE
    fetcher.close(3.0)
    assert counts() == {(FetchState.QUEUED, 0), (FetchState.DONE, 1)}


def test_sites_that_hang_keep_no_message_from_being_taken(
    fetcher: Fetcher, settings: Settings, tmp_path: Path, eventually: Eventually
) -> None:
    """Nine sites take all that they can; a message for a tenth is taken, and its page fetched, while they hang."""
    settings.WEIR_FETCH_MAX_IN_FLIGHT = 100
    settings.WEIR_FETCH_TIMEOUT = 60.0
    with sites.running(10, tmp_path) as running:
        names = [site(running, place, "100/s") for place in range(10)]
        request_fetches([running.url(place, f"/slow/60000/{n}") for place in range(9) for n in range(11)])

        def hanging() -> int:
            return Fetch.objects.filter(state=FetchState.RUNNING).count()

        def all_others_are_given_back() -> bool:
            if not hanging():  # nothing was asked yet, or all slots were missed: other processes had the processors
                fetcher.run_batch(reserve_all())
            return 0 < hanging() == sum(len(paths(running, place)) for place in range(9))

        eventually(all_others_are_given_back, "all others to be given back")
        before = hanging()
        for name in names[:9]:
            site_settings.pause(name)
        others = request_fetches([running.url(9, f"/ok/{n}") for n in range(40)])
        message = threading.Thread(target=fetcher.run_batch, args=(reserve_all(),))
        message.start()
        eventually(lambda: not message.is_alive(), "the message to be taken", seconds=10)
        for other in others:
            assert fetched(other, fetcher).state == FetchState.DONE
        assert hanging() == before
        fetcher.close(0.1)


class Page(BaseHTTPRequestHandler):
    """A page with validators, which answers 304 if they match."""

    def do_GET(self) -> None:
        unchanged = self.headers.get("If-None-Match") == '"v1"' and self.path == "/page"
        self.send_response(304 if unchanged else 200)
        self.send_header("ETag", '"v1"')
        self.send_header("Content-Length", "0" if unchanged else "4")
        self.end_headers()
        self.wfile.write(b"" if unchanged else b"page")

    def log_message(self, *_arguments: object) -> None:
        """Log nothing."""


@pytest.fixture
def page() -> Iterator[str]:
    """Return the address of a site that knows If-None-Match."""
    with answering(ThreadingHTTPServer(("127.1.250.250", 0), Page)) as server:
        yield f"http://127.1.250.250:{server.server_port}"


def test_a_revalidation_ends_with_the_body_of_the_last_good_result(page: str, fetcher: Fetcher) -> None:
    """A 304 refers to the earlier body; without an earlier one, or without validators for it, the body comes."""
    site_settings.set_rate(page.removeprefix("http://"), "100/s")
    first = fetched(request_fetch(f"{page}/page", revalidate=True), fetcher)
    assert (first.status_code, first.content, first.unchanged_from_id) == (200, b"page", None)
    second = fetched(request_fetch(f"{page}/page", revalidate=True), fetcher)
    assert (second.state, second.status_code) == (FetchState.DONE, 304)
    assert (second.content, second.unchanged_from_id) == (b"page", first.pk)
    third = fetched(request_fetch(f"{page}/page", revalidate=True), fetcher)
    assert third.unchanged_from_id == first.pk, "of the body itself, not of what refers to it"
    assert fetched(request_fetch(f"{page}/page"), fetcher).status_code == 200
    assert fetched(request_fetch(f"{page}/other", revalidate=True), fetcher).status_code == 200
    assert FetchBody.objects.filter(fetch=second.pk, own=b"").count() <= 1
