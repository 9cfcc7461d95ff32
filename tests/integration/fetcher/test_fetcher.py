"""The fetcher in this process, against fake sites: what it connects to, what it gives back."""

import gc
import math
import socket
import threading
import time
from dataclasses import replace
from datetime import timedelta

import pytest
from django.db import connection
from pytest_django import Settings

from demo.fakes import judge, site_log, sites
from tests.integration.conftest import Eventually, database_now
from tests.integration.fetching import fetch_until, fetched, reserve_all
from weir.ratelimit import clock, site_settings
from weir.ratelimit.models import Site
from weir.workers.fetches.enqueue import request_fetch, request_fetches
from weir.workers.fetches.fetcher.claim import claim
from weir.workers.fetches.fetcher.fetcher import Fetcher
from weir.workers.fetches.fetcher.http import lookup_shares
from weir.workers.fetches.fetcher.http.attempt import Attempt
from weir.workers.fetches.fetcher.in_flight import BatchInFlight
from weir.workers.fetches.fetcher.wire import pool
from weir.workers.fetches.models import Fetch, FetchState

pytestmark = pytest.mark.django_db(transaction=True)


def test_what_has_not_been_sent_goes_back_when_the_fetcher_stops(running_sites: sites.Sites, fetcher: Fetcher) -> None:
    """Closing returns unsent fetches to the queue, without an attempt, and stores those in flight."""
    host = f"{running_sites.hosts[0]}:{running_sites.port}"
    site_settings.set_rate(host, "1/10s")
    soon, *later = request_fetches([running_sites.url(0, f"/slow/300/{n}") for n in range(3)])
    ids = reserve_all()
    assert len(ids) == 3
    thread = threading.Thread(target=fetcher.run_batch, args=(ids,))
    thread.start()
    give_up_at = time.monotonic() + 5
    while not site_log.read_arrivals(running_sites.log)[0]:
        assert time.monotonic() < give_up_at
        time.sleep(0.02)
    fetcher.close(2.0)
    thread.join(2)
    assert not thread.is_alive()
    assert Fetch.objects.get(pk=soon.pk).state == FetchState.DONE
    assert {(f.state, f.attempts) for f in Fetch.objects.filter(pk__in=[f.pk for f in later])} == {
        (FetchState.QUEUED, 0)
    }


def test_a_site_reached_by_two_processes_keeps_its_interval_at_the_wire(
    running_sites: sites.Sites, fetcher: Fetcher
) -> None:
    """Two fetchers take turns with the runs of one site: the site sees its interval between all requests."""
    host = f"{running_sites.hosts[0]}:{running_sites.port}"
    site_settings.set_rate(host, "20/s")
    other = Fetcher()
    try:
        for turn in range(6):
            request_fetches([running_sites.url(0, f"/ok/{turn}/{n}") for n in range(4)])
            (fetcher, other)[turn % 2].run_batch(reserve_all())
        for fetch in Fetch.objects.unfinished():
            fetched(fetch, fetcher)
    finally:
        other.close(1.0)
    arrivals, _ = site_log.read_arrivals(running_sites.log)
    assert len(arrivals) == 24
    assert min(judge.gaps_ns(arrivals)) >= 50_000_000


def test_a_fetch_leaves_no_work_to_the_garbage_collector(
    running_sites: sites.Sites, fetcher: Fetcher, eventually: Eventually
) -> None:
    """The collector stops the loop, so a fetch leaves no cycles: what it used is freed with its last reference."""
    name = f"{running_sites.hosts[0]}:{running_sites.port}"
    site_settings.set_rate(name, "100/s", grace=timedelta(seconds=10))  # none misses its slot: errors have tracebacks
    gc.collect()
    gc.disable()
    try:
        for number in range(5):
            Site.objects.update(next_start=database_now())  # does not wait for the grace of the last one
            assert fetched(request_fetch(running_sites.url(0, f"/ok/{number}")), fetcher).state == FetchState.DONE
        # The one connection remembers the context, and so the attempt, that opened it. The last task ends a moment
        # after the writer got its event.
        eventually(
            lambda: sum(isinstance(thing, Attempt) for thing in gc.get_objects()) <= 1, "the attempts to be freed"
        )
    finally:
        gc.enable()


def test_a_fetch_that_wakes_after_its_run_opens_no_connection(
    running_sites: sites.Sites, fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes back, without an attempt: nothing is spent on a request that can only come too late."""
    opened = []
    monkeypatch.setattr(fetcher._session, "_exchange", lambda *arguments: opened.append(arguments))
    fetch = request_fetch(running_sites.url(0, "/ok"))
    [job] = claim(reserve_all(), fetcher._confirmation)
    fetcher._held += 1
    batch = BatchInFlight([job])
    late = replace(job, run=replace(job.run, start_until=clock.now() - 1))
    fetcher._loop.call_soon_threadsafe(fetcher._start, [late], batch)
    batch.wait()
    fetcher.close(1.0)
    fetch.refresh_from_db()
    assert (fetch.state, fetch.attempts) == (FetchState.QUEUED, 0)
    assert not opened


def test_a_host_that_was_not_looked_up_is_not_to_blame(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """If one name server hangs and holds all threads, its own fetch has used up an attempt, and the other has not."""
    told = threading.Event()
    monkeypatch.setattr(lookup_shares, "MOST_LOOKUPS", 1)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_arguments, **_options: told.wait(30))
    settings.WEIR_FETCH_DNS_TIMEOUT = 0.2
    fetches = request_fetches(["http://one.example/", "http://two.example/"])
    fetcher = Fetcher()
    try:
        fetch_until(fetcher, Fetch.objects.filter(attempts=1).exists, "the attempt of the first host")
    finally:
        fetcher.close(1.0)
        told.set()
    after = Fetch.objects.filter(pk__in=[fetch.pk for fetch in fetches]).order_by("attempts")
    assert [(fetch.state, fetch.attempts) for fetch in after] == [(FetchState.QUEUED, 0), (FetchState.QUEUED, 1)]
    assert "no answer from DNS" in after[1].error


def test_a_session_that_can_only_read_is_left(running_sites: sites.Sites, fetcher: Fetcher) -> None:
    """After a fail-over the claimer's connection may lead to a primary that was demoted: it makes a new one."""
    site_settings.set_rate(f"{running_sites.hosts[0]}:{running_sites.port}", "10/s")

    def demote() -> None:
        with connection.cursor() as cursor:
            cursor.execute("SET default_transaction_read_only = on")

    fetcher._claimer.submit(demote).result()
    assert fetched(request_fetch(running_sites.url(0, "/ok")), fetcher).state == FetchState.DONE


def test_a_connection_that_is_closed_just_as_the_request_comes_is_nobodys_fault(
    running_sites: sites.Sites, fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The site answers the next request: no attempt is counted. One counts if that connection is closed, too."""
    monkeypatch.setattr(pool, "SHORTEST_S", math.inf)  # on a slow machine, the site would seem to close idle ones
    site_settings.set_rate(f"{running_sites.hosts[0]}:{running_sites.port}", "20/s")
    fetched(request_fetch(running_sites.url(0, "/ok")), fetcher)  # its connection waits for the next
    raced = fetched(request_fetch(running_sites.url(0, "/closing/1"), max_attempts=1), fetcher)
    assert (raced.state, raced.attempts) == (FetchState.DONE, 1), raced.error
    closed_on = fetched(request_fetch(running_sites.url(0, "/close/"), max_attempts=1), fetcher)
    assert (closed_on.state, closed_on.attempts) == (FetchState.FAILED, 1)
    assert "closed the connection" in closed_on.error
    arrivals, _ = site_log.read_arrivals(running_sites.log)
    assert [arrival.path for arrival in arrivals] == ["/ok", *["/closing/1"] * 2, *["/close/"] * 2]
    assert min(judge.gaps_ns(arrivals)) >= 50_000_000


def test_a_long_header_is_read(running_sites: sites.Sites, fetcher: Fetcher) -> None:
    """Some sites send policies and cookies of many kilobytes."""
    fetch = fetched(request_fetch(running_sites.url(0, "/longheader/70000"), max_attempts=1), fetcher)
    assert fetch.state == FetchState.DONE, fetch.error


@pytest.mark.parametrize(("headers", "state"), [(3, FetchState.DONE), (100, FetchState.FAILED)])
def test_the_headers_of_an_answer_are_bounded_together(
    running_sites: sites.Sites, fetcher: Fetcher, headers: int, state: FetchState
) -> None:
    """A thousand long headers are 64 MB, which the loop reads, the writer copies, and PostgreSQL stores."""
    fetch = fetched(request_fetch(running_sites.url(0, f"/manyheaders/{headers}"), max_attempts=1), fetcher)
    assert fetch.state == state, fetch.error
    assert len(str(fetch.headers)) < 300_000
