"""A fetch is claimed once, with its place in time; fetches whose slots cannot be used any more go back to the queue."""

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from django.db import connections, transaction
from django.db.models import F
from django.db.transaction import TransactionManagementError
from pytest_django import Settings

from tests.integration.conftest import (
    Eventually,
    InThreads,
    Message,
    WaitersOf,
    claim,
    claimed,
    database_now,
    dispatch_message,
)
from weir.ratelimit import clock, site_settings, slots
from weir.ratelimit.models import Site, Slot
from weir.ratelimit.pacing import Confirmation
from weir.ratelimit.round_trips import RoundTrips
from weir.workers.fetches import cancelling
from weir.workers.fetches.cancelling import cancel
from weir.workers.fetches.dispatch import dispatch
from weir.workers.fetches.enqueue import request_fetch, request_fetches
from weir.workers.fetches.fetcher import claim as claiming
from weir.workers.fetches.fetcher.claim import successors_of
from weir.workers.fetches.fetcher.results.store import store
from weir.workers.fetches.jobs import FetchOutcome, Job, longest_hold_s
from weir.workers.fetches.models import Fetch, FetchState

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("messages", "long_lookahead")]

SITE = "site.example"
URL = "https://site.example/"
GRACE = timedelta(seconds=10)


def reserved(count: int, *, rate: str = "1/s", sites: int = 1) -> list[int]:
    """Reserve for `count` fetches, and return their ids in the order of their slots; a busy machine may be late."""
    for number in range(sites):
        site_settings.set_rate(f"{number}.{SITE}" if sites > 1 else SITE, rate, grace=GRACE)
    request_fetches([f"https://{f'{number % sites}.' if sites > 1 else ''}{SITE}/" for number in range(count)])
    assert dispatch() == count
    return list(Fetch.objects.order_by("slot_id").values_list("pk", flat=True))


def states() -> set[str]:
    return set(Fetch.objects.values_list("state", flat=True))


def test_claimed_fetches_run_with_a_lease() -> None:
    """A claimed fetch is running, and is held until all deadlines have passed after the end of its run."""
    ids = reserved(3)
    assert [job.fetch_id for job in claim(ids)] == ids
    for fetch in Fetch.objects.filter(state=FetchState.RUNNING, slot_id__isnull=False):
        slot = Slot.objects.get(pk=fetch.slot_id or 0)
        assert fetch.lease_until == slot.use_until + timedelta(seconds=longest_hold_s())
        assert (slot.released_at, slot.finished_at) == (None, None)
    assert states() == {FetchState.RUNNING}


def test_a_lease_ends_soon_after_the_last_start_whatever_the_burst() -> None:
    """The burst of a slow site takes hours of the site; the fetches of a killed fetcher come back long before."""
    site_settings.set_rate(SITE, "1/h", burst=5)
    request_fetches([f"https://{SITE}/{number}" for number in range(3)])
    assert dispatch() == 3
    jobs = claim(list(Fetch.objects.values_list("pk", flat=True)))
    latest = max(job.start_at for job in jobs) + Site.objects.get().effective_grace.total_seconds()
    assert jobs[0].run.start_until == pytest.approx(latest, abs=0.1)
    assert jobs[0].run.use_until > latest + 3_600
    last = Slot.objects.latest("start_time")
    assert set(Fetch.objects.values_list("lease_until", flat=True)) == {
        last.start_time + Site.objects.get().effective_grace + timedelta(seconds=longest_hold_s())
    }


def test_a_run_may_be_used_until_its_end_whatever_was_measured_since(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next run begins an interval after it."""
    monkeypatch.setattr(RoundTrips, "expected_s", lambda _round_trips: 0.3)
    [job] = claim(reserved(1))
    assert job.run.start_until == job.run.use_until


def test_a_lease_outlasts_every_deadline(settings: Settings) -> None:
    """No fetcher that keeps its deadlines loses its lease."""
    settings.WEIR_FETCH_DNS_TIMEOUT, settings.WEIR_FETCH_CONNECT_TIMEOUT, settings.WEIR_FETCH_TIMEOUT = 7, 11, 13
    assert longest_hold_s() > 7 + 11 + 13


def test_a_job_says_what_to_request() -> None:
    """The hop that comes next, and what the decisions after it need to know."""
    first, second = reserved(2)
    Fetch.objects.filter(pk=first).update(hop_url="https://site.example/hop", redirects=3, attempts=2, max_attempts=4)
    Fetch.objects.filter(pk=first).update(losses=2)
    Fetch.objects.filter(pk=second).update(hop_url="")
    jobs = {job.fetch_id: job for job in claim([first, second])}
    assert (jobs[first].url, jobs[first].redirects) == ("https://site.example/hop", 3)
    assert (jobs[first].attempts, jobs[first].max_attempts, jobs[first].losses) == (2, 4, 2)
    assert jobs[second].url == URL
    assert (jobs[first].first_url, jobs[second].first_url) == (URL, ""), "where it began, of one that was redirected"
    assert {job.slot_id for job in jobs.values()} == set(Slot.objects.values_list("pk", flat=True))


def test_a_successor_is_as_much_of_a_suspect_as_it_was() -> None:
    """The cancelled fetch that it follows does not know how often it was lost."""
    *_, last = claim(reserved(5))  # its slot lies four seconds ahead
    successor = request_fetch(URL)
    Fetch.objects.filter(pk=successor.pk).update(losses=2)
    assert cancel(last.fetch_id)
    [(job, _)] = successors_of([last])
    assert (job.fetch_id, job.losses, last.losses) == (successor.pk, 2, 0)


def test_a_successor_has_headers_of_its_own_or_none() -> None:
    """Not those of the cancelled fetch that it follows; Weir's own question for robots.txt has none."""
    given = {"Authorization": "Bearer {secret:SHOP}"}
    jobs = claim(reserved(7))
    for job, is_robots, headers in (
        (jobs[-1], False, None),
        (jobs[-2], False, {"X": "1"}),
        (jobs[-3], True, {"X": "1"}),
    ):
        followed = replace(job, site_headers=given, request_headers=given, has_left_origin=True)
        successor = request_fetch(URL, headers=headers)
        Fetch.objects.filter(pk=successor.pk).update(is_robots=is_robots)
        assert cancel(job.fetch_id)
        [(found, _)] = successors_of([followed])
        expected = {} if is_robots else headers or {}
        assert (found.fetch_id, found.site_headers, found.request_headers) == (successor.pk, {}, expected)
        assert not found.has_left_origin


def test_jobs_come_in_the_order_of_their_slots() -> None:
    """However the ids of a message are ordered, the first start comes first."""
    ids = reserved(10)
    jobs = claim(ids[::-1])
    assert [job.fetch_id for job in jobs] == ids
    assert [job.start_at for job in jobs] == sorted(job.start_at for job in jobs)


def test_the_jobs_of_one_site_share_one_run() -> None:
    """The fetcher keeps the interval between all starts of a site, and sites do not hold up each other."""
    jobs = claim(reserved(12, sites=3))
    sites: dict[str, set[int]] = {}
    for job in jobs:
        sites.setdefault(job.url, set()).add(id(job.run))
    assert len(sites) == 3
    assert {len(runs) for runs in sites.values()} == {1}
    assert len(set.union(*sites.values())) == 3


def test_the_run_knows_the_rate_of_the_site() -> None:
    """Interval and burst are those of the site."""
    site_settings.set_rate(SITE, "1/s", burst=4)
    [job] = claim(reserved(1, rate="2/s"))
    assert (job.run.interval_s, job.run.burst) == (0.5, 4)


def test_times_are_true_on_the_fetchers_monotonic_clock() -> None:
    """A start is never early, an end is never late, and neither is off by more than the round trip."""
    ids = reserved(5)
    jobs = claim(ids)
    before, now, after = clock.now(), database_now(), clock.now()
    for job in jobs:
        slot = Slot.objects.get(pk=job.slot_id)
        starts_in, ends_in = (slot.start_time - now).total_seconds(), (slot.use_until - now).total_seconds()
        assert before + starts_in - 0.001 <= job.start_at <= after + starts_in + 0.25
        assert before + ends_in - 0.25 <= job.run.use_until <= after + ends_in + 0.001
        assert job.start_at < job.run.use_until


# --- once only ----------------------------------------------------------------------------------------------------


def test_a_message_that_comes_twice_claims_nothing() -> None:
    """The second delivery finds nothing reserved and changes nothing."""
    ids = reserved(5)
    claim(ids)
    before = list(Fetch.objects.order_by("pk").values())
    assert claim(ids) == []
    assert list(Fetch.objects.order_by("pk").values()) == before


@pytest.mark.parametrize("state", [FetchState.QUEUED, FetchState.DONE, FetchState.FAILED, FetchState.CANCELLED])
def test_only_what_is_reserved_is_claimed(state: FetchState) -> None:
    """A late message about a fetch that has gone on, or gone back, claims nothing."""
    ids = reserved(2)
    ended = None if state == FetchState.QUEUED else database_now()
    Fetch.objects.filter(pk=ids[0]).update(state=state, finished_at=ended, status_code=200, error="because")
    assert [job.fetch_id for job in claim(ids)] == ids[1:]
    assert Fetch.objects.get(pk=ids[0]).state == state


def test_a_message_about_unknown_slots_claims_nothing() -> None:
    """A message that outlived its fetches does nothing."""
    for message in ([1, 2, 3], []):
        assert claiming.claim(message, Confirmation(asked_at=math.inf)) == []


def test_claimers_at_once_share_nothing(in_threads: InThreads) -> None:
    """However often a message is delivered at the same time, each fetch has one holder, and none is left behind."""
    ids = reserved(600, rate="10/s", sites=20)
    claimed: list[list[Job]] = in_threads(4, lambda _number: claim(ids))
    assert sorted(job.fetch_id for jobs in claimed for job in jobs) == sorted(ids)
    assert states() == {FetchState.RUNNING}


def test_a_run_has_one_holder_however_often_its_message_comes(in_threads: InThreads) -> None:
    """Two holders of one run would each keep the interval between their own starts only: a run is never split."""
    for _ in range(5):
        ids = reserved(600, rate="10/s", sites=20)
        claimed: list[list[Job]] = in_threads(4, lambda _number, ids=ids: claim(ids))  # type: ignore[misc]
        holders: dict[str, set[int]] = {}
        for number, jobs in enumerate(claimed):
            for job in jobs:
                holders.setdefault(job.url, set()).add(number)
        assert {len(numbers) for numbers in holders.values()} == {1}
        Fetch.objects.all().delete()
        Site.objects.all().delete()


def test_a_claim_refuses_to_run_inside_a_transaction() -> None:
    """A claim must be committed before a request is sent."""
    ids = reserved(1)
    with pytest.raises(TransactionManagementError), transaction.atomic():
        claim(ids)
    assert states() == {FetchState.RESERVED}


# --- back to the queue --------------------------------------------------------------------------------------------


def test_a_fetch_whose_run_is_over_goes_back(messages: list[Message]) -> None:
    """A message that came too late counts no attempt: the fetch is queued, its slot given back, its site awake."""
    ids = reserved(3)
    assert not Site.objects.get().has_backlog
    Slot.objects.update(use_until=F("use_until") - timedelta(hours=1), start_time=F("start_time") - timedelta(hours=1))
    messages.clear()
    assert claim(ids) == []
    for fetch in Fetch.objects.all():
        assert (fetch.state, fetch.slot_id, fetch.lease_until, fetch.attempts) == (FetchState.QUEUED, None, None, 0)
    assert not Slot.objects.filter(released_at=None).exists()
    assert Site.objects.get().has_backlog
    assert messages == [dispatch_message(SITE)]


def test_a_message_that_comes_too_late_costs_a_slow_site_a_minute() -> None:
    """A site of one start a day does not lose the day because a message took a second."""
    [fetch] = reserved(1, rate="1/d")
    late = {name: F(name) - GRACE - timedelta(seconds=5) for name in ("start_time", "use_until")}
    Slot.objects.update(**late)
    Site.objects.update(next_start=F("next_start") - GRACE - timedelta(seconds=5))
    assert claim([fetch]) == []
    assert slots.estimate(SITE) <= slots.RETRY


def test_a_run_whose_end_has_not_come_is_claimed_whole() -> None:
    """A fetcher that claims late uses the rest of the run: starts that have passed may be made until its end."""
    ids = reserved(3)
    Slot.objects.update(start_time=F("start_time") - timedelta(seconds=2))
    assert [job.fetch_id for job in claim(ids)] == ids


RECALLS: dict[str, Callable[[str], object]] = {
    "paused": lambda name: site_settings.pause(name, timedelta(minutes=10)),
    "paused for ever": site_settings.pause,
    "backed off": lambda name: site_settings.back_off(name, 600),
    "another rate": lambda name: site_settings.set_rate(name, "1/2s"),
    "crawl delay": lambda name: site_settings.set_crawl_delay(Site.objects.get(name=name).pk, timedelta(seconds=3)),
}


@pytest.mark.parametrize("how", RECALLS)
def test_a_fetch_whose_site_was_recalled_since_goes_back(how: str) -> None:
    """Slots that were reserved before a pause, a back-off or another rate are void; other sites are not touched."""
    ids = reserved(4, sites=2)
    name = f"0.{SITE}"
    RECALLS[how](name)
    jobs = claim(ids)
    assert {job.url for job in jobs} == {f"https://1.{SITE}/"}
    assert len(jobs) == 2
    closed = Fetch.objects.filter(site__name=name)
    assert set(closed.values_list("state", "slot_id", "lease_until", "attempts")) == {
        (FetchState.QUEUED, None, None, 0)
    }
    assert Slot.objects.filter(released_at__isnull=False).count() == 2


def test_what_is_reserved_after_a_recall_stands(long_lookahead: None) -> None:  # noqa: ARG001  asked for its effect
    """A slot that was reserved within a back-off starts after it, and is not voided by it."""
    site_settings.set_rate(SITE, "1/s")
    site_settings.back_off(SITE, 1)
    request_fetches([URL])
    Site.objects.update(recalled_at=database_now() - timedelta(seconds=1))  # dispatch leaves it alone for half a second
    assert dispatch() == 1
    assert len(claim(list(Fetch.objects.values_list("pk", flat=True)))) == 1


def test_a_fetch_is_held_or_cancelled_and_never_both(in_threads: InThreads) -> None:
    """However claims and cancels meet, a cancelled fetch is not claimed, or its fetcher learns of it."""
    ids = reserved(300, rate="10/s")
    jobs, cancelled = in_threads(2, lambda number: claim(ids) if number == 0 else [i for i in ids[::-1] if cancel(i)])
    held = set(Fetch.objects.filter(state=FetchState.RUNNING).values_list("pk", flat=True))
    assert sorted([*held, *cancelled]) == sorted(ids)
    claimed = {job.fetch_id: job.slot_id for job in jobs}
    assert held <= claimed.keys()
    passed_on = {recall.passed_on for recall in slots.recalls(60)}
    assert {claimed[fetch_id] for fetch_id in cancelled if fetch_id in claimed} <= passed_on


@pytest.mark.parametrize("others", [0, 1], ids=["alone", "in a run with others"])
def test_a_successor_that_comes_while_a_claim_waits_is_not_left_behind(
    others: int,
    other_connection: psycopg.Connection[Any],
    waiters: WaitersOf,
    eventually: Eventually,
) -> None:
    """It is claimed; or if the run is claimed by then, it is immediately queued again, and its slot stays empty."""
    ids = reserved(1 + others, rate="1/10s")
    Slot.objects.update(start_time=F("start_time") + GRACE, use_until=F("use_until") + GRACE)
    slot = Slot.objects.latest("start_time")
    successor = request_fetch(URL)

    def claimed() -> list[int]:
        try:
            return [job.fetch_id for job in claiming.claim(message, Confirmation(asked_at=math.inf))]
        finally:
            connections.close_all()

    message = list(Slot.objects.order_by("pk").values_list("pk", flat=True))
    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():  # of a cancel
            cancelling.LOCK_UNFINISHED(fetch=ids[-1])
            cancelling.CANCEL(fetch=ids[-1], confirmed_for=0.5)
            answer = pool.submit(claimed)
            eventually(lambda: waiters(other_connection) == 1, "the claim to wait for the cancel")
        assert answer.result(20) == (ids[:1] if others else [successor.pk])

    successor.refresh_from_db()
    slot.refresh_from_db()
    if others:
        assert (successor.state, successor.slot_id, slot.passed_on_at is None) == (FetchState.QUEUED, None, False)
    else:
        assert (successor.state, successor.slot_id, slot.passed_on_at) == (FetchState.RUNNING, slot.pk, None)
    assert slot.released_at is None


def test_a_repeated_message_does_not_claim_a_successor() -> None:
    """A successor that got its slot during the claim goes back to the queue when the message comes again."""
    ids = reserved(3)
    message = list(Slot.objects.order_by("pk").values_list("pk", flat=True))
    assert len(claiming.claim(message, Confirmation(asked_at=0))) == 3
    Fetch.objects.filter(pk=ids[1]).update(state=FetchState.RESERVED)
    assert claiming.claim(message, Confirmation(asked_at=0)) == []
    assert list(Fetch.objects.order_by("pk").values_list("state", "slot_id", "attempts")) == [
        (FetchState.RUNNING, message[0], 0),
        (FetchState.QUEUED, None, 0),
        (FetchState.RUNNING, message[2], 0),
    ]
    assert not Slot.objects.filter(released_at__isnull=False).exists(), "its start lies within the other's run"


def test_a_good_result_that_retention_is_about_to_delete_is_not_relied_on(settings: Settings) -> None:
    """The site would say that nothing has changed since a body that is deleted by then; a body that is in use stays."""
    settings.WEIR_FETCH_RETENTION = 600
    [first] = reserved(1)
    job = claimed(first)
    store(
        [
            FetchOutcome(
                fetch_id=first, slot_id=job.slot_id, state=FetchState.DONE, status_code=200, etag='"v1"', content=b""
            )
        ]
    )

    def relied_on(age_s: int) -> bool:
        Fetch.objects.filter(pk=first).update(finished_at=database_now() - timedelta(seconds=age_s))
        fetch = request_fetch(URL, revalidate=True)
        Site.objects.update(next_start=database_now())
        assert dispatch() == 1
        again = claimed(fetch.pk)
        store([FetchOutcome(fetch_id=fetch.pk, slot_id=again.slot_id, state=FetchState.FAILED, error="is not asked")])
        return again.validators is not None

    assert relied_on(500)
    assert not relied_on(580)
    Fetch.objects.exclude(pk=first).update(unchanged_from=first)
    assert relied_on(580)


@pytest.mark.parametrize(
    ("stored", "asked", "relied_on"),
    [
        ("https://site.example/a%2Ab?", "https://site.example/a%2Ab?#top", True),
        ("https://site.example/a*b", "https://site.example/a%2Ab", False),
        ("https://site.example/?u=a/b", "https://site.example/?u=a%2Fb", False),
        ("https://site.example/a", "https://site.example/a?", False),
    ],
)
def test_only_a_good_result_of_what_is_sent_is_relied_on(stored: str, asked: str, relied_on: bool) -> None:
    """Another spelling, such as earlier versions made of a URL, may be another page for its site."""
    [first] = reserved(1)
    job = claimed(first)
    store(
        [
            FetchOutcome(
                fetch_id=first, slot_id=job.slot_id, state=FetchState.DONE, status_code=200, etag='"v1"', content=b""
            )
        ]
    )
    Fetch.objects.filter(pk=first).update(hop_url=stored)
    fetch = request_fetch(asked, revalidate=True)
    Site.objects.update(next_start=database_now())
    assert dispatch() == 1
    again = claimed(fetch.pk)
    assert (again.validators is not None) == relied_on


def test_a_message_that_is_older_than_the_reservation_claims_nothing() -> None:
    """A fetch that was taken back, and has a new slot, belongs to the newer message alone: a run has one holder."""
    reserved(2)
    old_message = list(Slot.objects.values_list("pk", flat=True))
    Fetch.objects.update(state=FetchState.QUEUED, slot_id=None, lease_until=None)
    Site.objects.update(has_backlog=True, next_start=database_now())
    dispatch()
    assert claiming.claim(old_message, Confirmation(asked_at=0)) == []
    assert states() == {FetchState.RESERVED}
    assert len(claim(list(Fetch.objects.values_list("pk", flat=True)))) == 2
