"""With `dedupe`, a URL has one unfinished fetch, whichever process asks, and no process waits for that fetch."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

import psycopg
import pytest
from django.db import connection, connections, transaction

from tests.integration.conftest import (
    Eventually,
    InThreads,
    Message,
    WaitersOf,
    claimed,
    dispatch_message,
    waiting_for_nobody,
)
from tests.integration.plans import explain
from weir.ratelimit import site_settings
from weir.workers.fetches.cancelling import cancel
from weir.workers.fetches.dispatch import dispatch
from weir.workers.fetches.enqueue import request_fetch, request_fetches
from weir.workers.fetches.fetcher.results.store import store
from weir.workers.fetches.jobs import FetchOutcome
from weir.workers.fetches.models import ACTIVE, Fetch, FetchState
from weir.workers.fetches.requested import dedupe_key

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("messages", "long_lookahead")]

URL = "https://site.example/page"

QUEUE = """
INSERT INTO weir_fetches_fetch (
    url, hop_url, site_id, state, dedupe_key,
    priority, max_attempts, on_done, error, redirects, attempts, headers, etag, last_modified
)
SELECT %(url)s, %(url)s, id, 'queued', %(key)s, 0, 5, '', '', 0, 0, '[]', '', '' FROM weir_ratelimit_site LIMIT 1
RETURNING id
"""
END = "UPDATE weir_fetches_fetch SET state = 'done', finished_at = now(), status_code = 200 WHERE id = %s"


def once(*urls: str, **options: Any) -> list[int]:
    """Ask for the URLs with `dedupe`, and return the ids of the fetches."""
    return [fetch.pk for fetch in request_fetches(urls, dedupe=True, **options)]


def key_of(url: str) -> UUID:
    return dedupe_key(url, on_done="", revalidate=False)


def queue(other: psycopg.Connection[Any], url: str) -> int:
    """Queue a fetch as another caller with `dedupe` would, in its open transaction."""
    row = other.execute(QUEUE, {"url": url, "key": key_of(url)}).fetchone()
    assert row is not None
    return int(row[0])


def state_of(fetch_id: int) -> str:
    return Fetch.objects.values_list("state", flat=True).get(pk=fetch_id)


# --- what is the same -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "spelling",
    [URL, f" {URL}", f"{URL}#part", "https://site.example:443/page", "HTTPS://SITE.example./x/../page"],
)
def test_every_spelling_of_a_url_gets_the_unfinished_fetch(spelling: str) -> None:
    """URLs are compared as they are sent; the row that comes back is whole."""
    first = request_fetch(URL, dedupe=True, priority=3)
    again = request_fetch(spelling, dedupe=True)
    assert again == first
    for field in Fetch._meta.concrete_fields:
        assert getattr(again, field.attname) == getattr(first, field.attname), field.name
    assert Fetch.objects.count() == 1


def test_an_empty_path_is_the_root() -> None:
    """Both are sent as `GET /`, so that they are one URL; it is stored in the form in which it is sent."""
    bare, slash = (request_fetch(url, dedupe=True) for url in ("https://site.example", "https://site.example/"))
    assert bare == slash
    assert Fetch.objects.get().hop_url == "https://site.example/"


def test_another_url_gets_another_fetch() -> None:
    """Scheme, host, port, path and query tell URLs apart, by each byte: a site may answer otherwise to `%2F`."""
    urls = [URL, f"{URL}/", f"{URL}?a=1", "http://site.example/page", "https://site.example:8443/page"]
    urls += [f"{URL}?", f"{URL}?u=a%2Fb", f"{URL}?u=a/b", f"{URL}%", f"{URL}%25", f"{URL}%2a", f"{URL}%2A", f"{URL}*"]
    urls += ["https://fass.example/page", "https://faß.example/page", "https://site.example/Page"]
    assert len(set(once(*urls))) == len(urls)


def test_another_on_done_gets_another_fetch() -> None:
    """A fetch that calls another task, or none, cannot stand for this one."""
    ids = [*once(URL), *once(URL, on_done="shop.tasks.a"), *once(URL, on_done="shop.tasks.b")]
    assert len(set(ids)) == 3
    assert once(URL, on_done="shop.tasks.a") == [ids[1]]


def test_a_request_for_a_body_does_not_get_a_fetch_that_only_asks_for_changes() -> None:
    """Such a fetch may end with status 304, which only its own caller expects."""
    [whole], [changes] = once(URL), once(URL, revalidate=True)
    assert whole != changes
    assert (once(URL), once(URL, revalidate=True)) == ([whole], [changes])


def test_fetches_that_were_asked_for_without_it_are_no_matter() -> None:
    """There may be many for one URL, before and after."""
    before = request_fetch(URL)
    [fetch] = once(URL)
    after = request_fetch(URL)
    assert len({before.pk, fetch, after.pk}) == 3
    assert once(URL) == [fetch]


def test_one_call_may_name_a_url_twice() -> None:
    """Each text gets its fetch, in the order of the texts; a bad one is a failure of its own."""
    other = "https://site.example/other"
    urls = [URL, "nonsense", other, f"{URL}#part", "nonsense", URL]
    ids = once(*urls)
    assert ids[0] == ids[3] == ids[5]
    assert len(set(ids)) == Fetch.objects.count() == 4
    stored = Fetch.objects.in_bulk(ids)
    assert [stored[pk].url for pk in ids] == [URL, "nonsense", other, URL, "nonsense", URL]
    assert [stored[pk].state for pk in ids] == [
        FetchState.FAILED if url == "nonsense" else FetchState.QUEUED for url in urls
    ]


def test_the_new_ones_age_in_the_order_in_which_they_were_asked_for() -> None:
    """Keys are inserted in their own order, which does not change the order of the fetches."""
    urls = [f"https://site.example/{number}" for number in range(100)]
    known = once(*urls[10:20])
    ids = once(*urls)
    assert ids[10:20] == known
    aged = Fetch.objects.exclude(pk__in=known).order_by("not_before", "pk").values_list("pk", flat=True)
    assert list(aged) == ids[:10] + ids[20:] == sorted(ids[:10] + ids[20:])


def test_workers_hear_of_the_new_ones_only(messages: list[Message]) -> None:
    """A fetch that exists already does not wake its site again."""
    once(URL)
    messages.clear()
    once(URL, "https://site.example/other")
    assert messages == []  # the site's flag is active
    once("https://other.example/")
    assert messages == [dispatch_message("other.example")]


# --- how long -------------------------------------------------------------------------------------------------------


def test_a_fetch_is_found_from_the_queue_to_its_end() -> None:
    """Queued, reserved, running, redirected, due for another attempt: it is still the same fetch."""
    site_settings.set_rate("site.example", "100/s")
    [fetch] = once(URL)

    def held() -> dict[str, Any]:
        assert dispatch() == 1
        assert once(URL) == [fetch]
        job = claimed(fetch)
        assert once(URL) == [fetch]
        return {"fetch_id": job.fetch_id, "slot_id": job.slot_id}

    store([FetchOutcome(**held(), state=FetchState.QUEUED, hop_url="https://site.example/2", hop_host="site.example")])
    assert once(URL) == [fetch]
    store([FetchOutcome(**held(), state=FetchState.QUEUED, error="the site answered 503")])
    assert once(URL) == [fetch]
    store([FetchOutcome(**held(), state=FetchState.DONE, status_code=200)])
    assert once(URL) != [fetch]


@pytest.mark.parametrize("end", [FetchState.DONE, FetchState.FAILED])
def test_after_the_end_a_url_is_fetched_anew(end: FetchState) -> None:
    """A fetch that has ended does not serve a new request."""
    site_settings.set_rate("site.example", "100/s")
    [fetch] = once(URL)
    assert dispatch() == 1
    job = claimed(fetch)
    store([FetchOutcome(fetch_id=fetch, slot_id=job.slot_id, state=end, status_code=404, error="refused")])
    [new] = once(URL)
    assert (new != fetch, state_of(fetch), state_of(new)) == (True, end, FetchState.QUEUED)


def test_what_was_cancelled_does_not_stand_in_the_way() -> None:
    """Cancelling a fetch frees its URL immediately."""
    [fetch] = once(URL)
    assert cancel(fetch)
    [new] = once(URL)
    assert (new != fetch, state_of(new)) == (True, FetchState.QUEUED)


# --- at once --------------------------------------------------------------------------------------------------------


def test_many_requests_for_one_url_at_once_get_one_fetch(in_threads: InThreads) -> None:
    """Eight connections ask at the same moment, again and again: all of them get the one row of each URL."""
    asked = [f"https://site.example/{number}" for number in range(20)]
    told = in_threads(8, lambda _: [once(url)[0] for url in asked])
    assert all(ids == told[0] for ids in told)
    assert Fetch.objects.count() == len(asked)


def test_overlapping_sets_in_any_order_all_get_the_same_fetches(in_threads: InThreads) -> None:
    """Transactions that ask for the same 300 URLs, each beginning with another one, end without a deadlock."""
    site_settings.set_rate("site.example", "1/s")  # otherwise they would wait for the new site first
    urls = [f"https://site.example/{number}" for number in range(300)]

    def ask(number: int) -> dict[str, int]:
        mine = urls[number * 70 :] + urls[: number * 70]
        with transaction.atomic():
            return dict(zip(mine, once(*mine), strict=True))

    told = in_threads(4, ask)
    assert all(ids == told[0] for ids in told)
    assert Fetch.objects.count() == len(urls)


def test_keys_are_taken_in_their_order_whatever_the_order_of_the_urls(
    other_connection: psycopg.Connection[Any], waiters: WaitersOf, eventually: Eventually
) -> None:
    """A caller that waits for a lower key does not hold a higher one yet: two callers never wait for each other."""
    site_settings.set_rate("site.example", "1/s")
    low, high = in_the_order_of_their_keys()
    theirs = [queue(other_connection, low)]
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(in_a_connection_of_its_own, lambda: once(high, low))
        eventually(lambda: waiters(other_connection) == 1, "the caller that asks for both")
        other_connection.execute("SET LOCAL lock_timeout = '2s'")
        theirs.insert(0, queue(other_connection, high))
        other_connection.commit()
        assert asked.result(20) == theirs


def test_a_transaction_finds_what_it_asked_for_itself() -> None:
    """A transaction knows its own uncommitted fetch, which is rolled back with it."""
    with transaction.atomic():
        assert once(URL) == once(URL)
        transaction.set_rollback(True)
    assert not Fetch.objects.exists()


@pytest.mark.parametrize("committed", [True, False])
def test_a_request_behind_an_open_transaction_learns_how_that_ended(
    committed: bool, other_connection: psycopg.Connection[Any], waiters: WaitersOf, eventually: Eventually
) -> None:
    """It gets the other's fetch, if that committed; a fetch of its own otherwise."""
    request_fetch("https://site.example/site")
    theirs = queue(other_connection, URL)
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(in_a_connection_of_its_own, lambda: once(URL))
        eventually(lambda: waiters(other_connection) == 1, "the request behind it")
        assert not asked.done()
        (other_connection.commit if committed else other_connection.rollback)()
        [ours] = asked.result(20)
    assert (ours == theirs) is committed
    assert Fetch.objects.filter(dedupe_key=key_of(URL), state__in=ACTIVE).count() == 1


def test_a_request_while_the_fetch_is_ending_gets_a_new_one(
    other_connection: psycopg.Connection[Any], waiters: WaitersOf, eventually: Eventually
) -> None:
    """The request waits for a result that is being stored: it is not known yet whether the fetch goes on."""
    [fetch] = once(URL)
    other_connection.execute(END, [fetch])
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(in_a_connection_of_its_own, lambda: once(URL))
        eventually(lambda: waiters(other_connection) == 1, "the request")
        other_connection.commit()
        [new] = asked.result(20)
    assert (new != fetch, state_of(new)) == (True, FetchState.QUEUED)


def test_a_fetch_that_ends_before_it_is_looked_at_is_asked_for_anew(
    other_connection: psycopg.Connection[Any],
) -> None:
    """The insert met it, but the look-up does not find it: both are repeated, and nothing is queued twice."""
    [ending] = once(URL)
    [going_on] = once("https://site.example/goes-on")

    def end(_look: int) -> None:
        other_connection.execute(END, [ending])
        other_connection.commit()

    with before_looks(end):
        ids = once("https://site.example/new", URL, "https://site.example/goes-on", "nonsense")
    assert ids[1] != ending
    assert ids[2] == going_on
    assert list(Fetch.objects.filter(pk__in=ids).values_list("state", flat=True)).count(FetchState.QUEUED) == 3
    assert Fetch.objects.count() == 5


def test_a_second_round_holds_nothing_that_another_caller_waits_for(
    other_connection: psycopg.Connection[Any], waiters: WaitersOf, eventually: Eventually
) -> None:
    """In its second round a transaction holds none of its keys: asking for a lower one cannot deadlock."""
    low, high = in_the_order_of_their_keys()
    [ending] = once(low)
    theirs: list[int] = []

    def ask_for_the_other_too() -> None:
        theirs.append(queue(other_connection, high))
        other_connection.commit()

    def overtake(look: int) -> None:
        if look == 0:
            other_connection.execute(END, [ending])
            other_connection.commit()
            theirs.append(queue(other_connection, low))
            pool.submit(ask_for_the_other_too)
            eventually(lambda: waiters(connection.connection) == 1, "the other to wait for the key that was taken")

    with ThreadPoolExecutor(1) as pool, before_looks(overtake), transaction.atomic():
        assert once(low, high) == theirs


def test_an_unfinished_fetch_is_not_locked_by_a_request_for_it(other_connection: psycopg.Connection[Any]) -> None:
    """Its result is stored while the transaction of another request for it is open."""
    [fetch] = once(URL)
    with transaction.atomic():
        assert once(URL) == [fetch]
        other_connection.execute("SET LOCAL lock_timeout = '2s'")
        other_connection.execute(END, [fetch])
        other_connection.commit()
    assert state_of(fetch) == FetchState.DONE


def test_a_fetch_that_dispatch_has_locked_is_found_without_waiting(other_connection: psycopg.Connection[Any]) -> None:
    """A lock on the row says nothing about its state."""
    [fetch] = once(URL)
    other_connection.execute("SELECT id FROM weir_fetches_fetch FOR NO KEY UPDATE")
    with waiting_for_nobody():
        assert once(URL) == [fetch]


def test_the_unfinished_one_is_looked_up_by_its_key() -> None:
    """However many fetches there are, the look reads the partial index."""
    once(*(f"https://site.example/{number}" for number in range(2_000)))
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE weir_fetches_fetch")
    keys = [key_of(f"https://site.example/{number}") for number in range(20)]
    query, parameters = Fetch.objects.unfinished().filter(dedupe_key__in=keys).query.sql_with_params()
    with connection.cursor() as cursor:
        text = cursor.mogrify(query, parameters)
    assert "weir_fetch_unfinished_once" in {node.get("Index Name") for node in explain(text)}


# --- means ----------------------------------------------------------------------------------------------------------


def in_the_order_of_their_keys() -> list[str]:
    return sorted((f"https://site.example/{number}" for number in range(2)), key=key_of)


def in_a_connection_of_its_own(call: Callable[[], Any]) -> Any:
    """Call in a thread that ends with its connection closed."""
    try:
        return call()
    finally:
        connections.close_all()


def before_looks(do: Callable[[int], None]) -> Any:
    """Call `do` between each insert and the look that follows it, numbered from 0."""
    looks = iter(range(1_000))

    def wrapper(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if sql.startswith("SELECT") and '"dedupe_key" IN' in sql:
            do(next(looks))
        return execute(sql, params, many, context)

    return connection.execute_wrapper(wrapper)
