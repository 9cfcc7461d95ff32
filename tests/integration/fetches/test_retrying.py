"""Failed fetches begin again from their own URLs, as new ones would, and none hinders another."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from django.db import connection, connections, transaction
from django.db.transaction import TransactionManagementError
from pytest_django import Settings

from project.celery import app
from tests.integration.conftest import (
    Eventually,
    Message,
    WaitersOf,
    claimed,
    claimed_all,
    database_now,
    dispatch_message,
)
from tests.integration.fetching import queue_pages
from tests.integration.plans import scanned
from weir.ratelimit import site_settings
from weir.ratelimit.models import Site
from weir.workers.fetches import retrying
from weir.workers.fetches.backlog import deactivate
from weir.workers.fetches.cancelling import cancel
from weir.workers.fetches.dispatch import dispatch
from weir.workers.fetches.enqueue import request_fetch, request_fetches
from weir.workers.fetches.fetcher.results.store import store
from weir.workers.fetches.jobs import FetchOutcome
from weir.workers.fetches.models import Fetch, FetchState
from weir.workers.fetches.requested import dedupe_key
from weir.workers.fetches.retrying import Retried, retry_failed

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("messages", "long_lookahead")]

SITE = "site.example"
URL = f"https://{SITE}/page"
ARRIVED = "shop.tasks.arrived"

# As `request_fetch(..., dedupe=True)` would for the URL of a fetch that has ended.
ASK_AGAIN = """
INSERT INTO weir_fetches_fetch (
    url, hop_url, site_id, state, dedupe_key,
    priority, max_attempts, on_done, error, redirects, attempts, headers, etag, last_modified
)
SELECT url, hop_url, site_id, 'queued', dedupe_key, 0, 5, '', '', 0, 0, '[]', '', ''
FROM weir_fetches_fetch WHERE id = %s
ON CONFLICT (dedupe_key) WHERE dedupe_key IS NOT NULL AND state IN ('queued', 'reserved', 'running') DO NOTHING
"""


def failed(count: int = 1, **options: Any) -> list[int]:
    """Make fetches that failed at the last of several hops, with all that this leaves behind."""
    for site in (SITE, "cdn.example"):
        site_settings.set_rate(site, "1000/s", grace=timedelta(seconds=0.3))  # a claim may come late
    ids = [fetch.pk for fetch in request_fetches([f"{URL}/{number}" for number in range(count)], **options)]
    hop = {"state": FetchState.QUEUED, "hop_url": "https://cdn.example/", "hop_host": "cdn.example", "attempted": False}
    seen = {"status_code": 503, "headers": '[["Server", "fake"]]', "lateness_ms": 1.5, "elapsed_ms": 20.0}
    seen |= {"content": b"<ht", "incomplete": "cut"}  # as with WEIR_FETCH_KEEP_INCOMPLETE
    for outcome in (hop, {"state": FetchState.FAILED, "error": "the site answered 503 (attempt 1 of 1)", **seen}):
        assert dispatch() == len(ids)
        jobs = claimed_all(ids)
        store([FetchOutcome(fetch_id=job.fetch_id, slot_id=job.slot_id, **outcome) for job in jobs])  # type: ignore[arg-type]  # the fields are of many types
    Fetch.objects.update(losses=3)
    assert set(Fetch.objects.filter(pk__in=ids).values_list("state", flat=True)) == {FetchState.FAILED}
    return ids


def states(*ids: int) -> list[str]:
    found = dict(Fetch.objects.values_list("pk", "state"))
    return [found[pk] for pk in ids]


@pytest.fixture
def _in_batches_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retry nothing one by one."""
    monkeypatch.delattr(retrying, "_queue_one")


def retry_all() -> Retried:
    """Retry in a connection of its own."""
    try:
        return retry_failed(Fetch.objects.all())
    finally:
        connections.close_all()


# --- one fetch ------------------------------------------------------------------------------------------------------


def test_a_failed_fetch_begins_again_as_if_it_were_new() -> None:
    """Nothing is left of the attempts that failed; its id and what was asked for stay."""
    [retried] = failed(priority=7, max_attempts=1, on_done=ARRIVED)
    before = database_now()
    assert retry_failed(Fetch.objects.all()) == Retried(queued=1)
    fetch = Fetch.objects.get()
    new = request_fetch(fetch.url, priority=7, max_attempts=1, on_done=ARRIVED)
    assert before < fetch.not_before < new.not_before
    for field in Fetch._meta.concrete_fields:
        if field.attname not in {"id", "created_at", "not_before"}:
            assert getattr(fetch, field.attname) == getattr(new, field.attname), field.name
    assert fetch.pk == retried
    assert fetch.content is None


@pytest.mark.parametrize("started", [True, False])
def test_a_retried_put_is_not_the_first_request(*, started: bool) -> None:
    """Its site may have got one: so a 409 may say that this one still goes on. A fetcher may have been lost with it."""
    failed(method="HEAD")
    failed(method="PUT", repeatable=True)
    Fetch.objects.update(**{"losses": 0} if started else {"started_at": None})
    assert retry_failed(Fetch.objects.all()).queued == 2
    ids = list(Fetch.objects.values_list("pk", flat=True))
    assert dispatch() == 2
    assert {job.method: job.was_sent for job in claimed_all(ids)} == {"HEAD": False, "PUT": True}


def test_it_is_fetched_again_and_its_end_is_told_again(messages: list[Message]) -> None:
    """The site is woken, the fetch is made, and `on_done` is called at the new end, too."""
    [fetch] = failed(on_done=ARRIVED)
    deactivate(list(Site.objects.values_list("pk", flat=True)))
    messages.clear()
    retry_failed(Fetch.objects.all())
    assert messages == [dispatch_message("site.example")]
    assert dispatch() == 1
    job = claimed(fetch)
    assert job.url == f"{URL}/0"
    store([FetchOutcome(fetch_id=fetch, slot_id=job.slot_id, state=FetchState.DONE, status_code=200, content=b"page")])
    assert Fetch.objects.get().state == FetchState.DONE
    assert messages[-1] == (ARRIVED, (fetch,))


def test_a_call_of_its_first_end_is_not_taken_for_that_of_the_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """If a fetch is retried while `on_done` is being published, the task is still called at the new end."""
    monkeypatch.setattr(app, "send_task", lambda *_, **__: retry_failed(Fetch.objects.all()))
    fetch = request_fetch(URL, on_done=ARRIVED).pk
    site_settings.set_rate(SITE, "1000/s")
    dispatch()
    job = claimed(fetch)
    store([FetchOutcome(fetch_id=fetch, slot_id=job.slot_id, state=FetchState.FAILED, error="refused")])
    assert states(fetch) == [FetchState.QUEUED]
    assert Fetch.objects.get().on_done_called_at is None


def test_it_begins_at_the_site_that_its_url_has_now() -> None:
    """A parent site that has covered the host since then takes it, unless the host has a site of its own."""
    site_settings.set_rate("example.com", "1/s", covers_subdomains=True)
    [fetch] = failed()
    Fetch.objects.filter(pk=fetch).update(url="https://www.example.com/page")
    retry_failed(Fetch.objects.all())
    stored = Fetch.objects.select_related("site").get()
    assert stored.site is not None
    assert (stored.site.name, stored.hop_url) == ("example.com", "https://www.example.com/page")


# --- which ----------------------------------------------------------------------------------------------------------


def test_only_what_failed_is_retried() -> None:
    """Fetches that wait, are in flight, done or cancelled stay as they are, chosen or not."""
    [gone_wrong] = failed()
    queued, cancelled, held = (request_fetch(f"{URL}/{name}").pk for name in ("queued", "cancelled", "held"))
    assert cancel(cancelled)
    Fetch.objects.filter(pk=held).update(state=FetchState.RUNNING, slot_id=1, lease_until=database_now())
    others = Fetch.objects.exclude(pk=gone_wrong).order_by("pk")
    before = list(others.values())
    assert retry_failed(Fetch.objects.all()) == Retried(queued=1)
    assert list(others.values()) == before
    assert states(gone_wrong, queued) == [FetchState.QUEUED, FetchState.QUEUED]
    assert retry_failed(Fetch.objects.all()) == Retried()


def test_a_choice_is_any_queryset() -> None:
    """Fetches outside it are left alone."""
    first, second, third = failed(3)
    assert retry_failed(Fetch.objects.failed().filter(pk__in=[first, third])) == Retried(queued=2)
    assert states(first, second, third) == [FetchState.QUEUED, FetchState.FAILED, FetchState.QUEUED]


def test_the_oldest_are_retried_up_to_a_limit() -> None:
    """A few first, to see how they fare."""
    ids = failed(5)
    assert retry_failed(Fetch.objects.order_by("-pk"), limit=2) == Retried(queued=2)
    assert states(*ids) == [FetchState.QUEUED] * 2 + [FetchState.FAILED] * 3


@pytest.mark.parametrize("text", ["nonsense", "https://site.example/\0", "https://site.example/" + "x" * 20_000])
def test_what_never_was_a_url_stays_failed(text: str) -> None:
    """Texts that cannot be fetched are counted apart, even if the stored text would pass; others are retried."""
    bad = request_fetch(text)
    [good] = failed()
    error = bad.error
    assert retry_failed(Fetch.objects.all(), limit=1) == Retried(queued=1, not_urls=1)
    assert states(bad.pk, good) == [FetchState.FAILED, FetchState.QUEUED]
    assert Fetch.objects.get(pk=bad.pk).error == error


def test_a_robots_txt_is_left_alone() -> None:
    """Weir asks for it again when it needs it; retried by hand, it would meet that one."""
    [fetch] = failed()
    robots = Fetch.objects.create(
        url=f"https://{SITE}/robots.txt",
        site=Site.objects.get(name=SITE),
        state=FetchState.FAILED,
        error="refused",
        finished_at=database_now(),
        is_robots=True,
    )
    assert retry_failed(Fetch.objects.all()) == Retried(queued=1, robots_files=1)
    assert states(fetch, robots.pk) == [FetchState.QUEUED, FetchState.FAILED]


def test_the_robots_txt_of_its_origin_is_asked_for_as_that_of_a_new_one(settings: Settings) -> None:
    """The robots.txt goes first, so that the retried fetch need not wait for it with a slot in hand."""
    failed()
    settings.WEIR_OBEY_ROBOTS = True
    retry_failed(Fetch.objects.all())
    assert Fetch.objects.get(is_robots=True).url == f"https://{SITE}/robots.txt"


def test_what_is_no_url_any_more_stays_failed() -> None:
    """A text that an earlier version accepted may be refused today."""
    ids = failed(2)
    Fetch.objects.filter(pk=ids[0]).update(url="http://user:secret@site.example/")
    assert retry_failed(Fetch.objects.all()) == Retried(queued=1, not_urls=1)
    assert states(*ids) == [FetchState.FAILED, FetchState.QUEUED]


@pytest.mark.usefixtures("_in_batches_only")
def test_many_are_retried_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there are, each is retried once."""
    ids = failed(250)
    monkeypatch.setattr(retrying, "BATCH", 100)
    assert retry_failed(Fetch.objects.all()) == Retried(queued=250)
    assert set(states(*ids)) == {FetchState.QUEUED}


def test_inside_a_transaction_it_refuses_to_run() -> None:
    """A retry is committed immediately; the mistake is reported even if there is nothing to retry."""
    refusal = pytest.raises(
        TransactionManagementError, match=r"^retry_failed_fetches must commit by itself: call it outside"
    )
    with refusal, transaction.atomic():
        retry_failed(Fetch.objects.none())


def test_a_batch_is_looked_up_by_index() -> None:
    """Even without statistics, no table is read from end to end."""
    ids = failed(100, dedupe=True)
    site = Site.objects.get(name=SITE).pk
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM pg_statistic WHERE starelid = 'weir_fetches_fetch'::regclass")
    queue_pages(20_000, dedupe=True)
    parameters: dict[str, object] = {"ids": ids, "hop_urls": [URL] * len(ids), "sites": [site] * len(ids)}
    assert not scanned("weir.workers.fetches", "retry", parameters)


# --- dedupe ---------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("_in_batches_only")
def test_a_url_with_an_unfinished_fetch_is_not_doubled() -> None:
    """The failed one stays failed while another with its key is unfinished, and may be retried afterwards."""
    old, free = failed(2, dedupe=True)
    new = request_fetch(f"{URL}/0", dedupe=True)
    assert new.pk != old
    assert retry_failed(Fetch.objects.all()) == Retried(queued=1, already_unfinished=1)
    assert states(old, free) == [FetchState.FAILED, FetchState.QUEUED]
    assert cancel(new.pk)
    assert retry_failed(Fetch.objects.all()) == Retried(queued=1)
    assert request_fetch(f"{URL}/0", dedupe=True).pk == old


@pytest.mark.usefixtures("_in_batches_only")
def test_of_several_that_failed_with_one_key_the_oldest_is_retried() -> None:
    """The key admits one of them."""
    [first] = failed(dedupe=True)
    [second] = failed(dedupe=True)
    without = failed(2)
    assert retry_failed(Fetch.objects.all()) == Retried(queued=3, already_unfinished=1)
    assert states(first, second, *without) == [
        FetchState.QUEUED,
        FetchState.FAILED,
        FetchState.QUEUED,
        FetchState.QUEUED,
    ]


@pytest.mark.parametrize("committed", [True, False])
def test_a_transaction_that_asks_for_the_same_url_is_waited_for(
    committed: bool, other_connection: psycopg.Connection[Any], waiters: WaitersOf, eventually: Eventually
) -> None:
    """Whether the key is free shows when the other's transaction ends; until then the rest is retried."""
    contested, free = failed(2, dedupe=True)
    other_connection.execute(ASK_AGAIN, [contested])

    with ThreadPoolExecutor(1) as pool:
        retried = pool.submit(retry_all)
        eventually(lambda: waiters(other_connection) == 1, "the retry to wait")
        (other_connection.commit if committed else other_connection.rollback)()
        expected = Retried(queued=1, already_unfinished=1) if committed else Retried(queued=2)
        assert retried.result(20) == expected
    assert states(free) == [FetchState.QUEUED]
    assert (
        Fetch.objects.unfinished().filter(dedupe_key=dedupe_key(f"{URL}/0", on_done="", revalidate=False)).count() == 1
    )


def test_it_holds_no_key_for_which_others_have_to_wait_long(
    other_connection: psycopg.Connection[Any], eventually: Eventually
) -> None:
    """While it waits for one key, it holds no others: a transaction that holds that key can get another one."""
    ids = failed(2, dedupe=True)
    other_connection.execute(ASK_AGAIN, [ids[1]])

    with ThreadPoolExecutor(1) as pool:
        retried = pool.submit(retry_all)
        eventually(lambda: states(ids[0]) == [FetchState.QUEUED], "the first to be retried by itself")
        other_connection.execute("SET LOCAL lock_timeout = '2s'")
        other_connection.execute(ASK_AGAIN, [ids[0]])
        other_connection.commit()
        assert retried.result(20) == Retried(queued=1, already_unfinished=1)
