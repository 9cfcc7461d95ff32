"""Requests of web code are stored in order and in its transaction, and workers learn of them once, after the commit."""

import threading
import time
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import psycopg
import pytest
from celery import shared_task
from django.core.management import call_command
from django.db import transaction
from pytest_django import Settings

from project.celery import app
from tests.integration.conftest import (
    InThreads,
    Message,
    dispatch_message,
    waiting_for_nobody,
)
from weir.ratelimit import site_settings
from weir.ratelimit.models import Site
from weir.workers import task_names
from weir.workers.fetches import backlog
from weir.workers.fetches.cancelling import cancel
from weir.workers.fetches.dispatch import dispatch
from weir.workers.fetches.enqueue import request_fetch, request_fetches
from weir.workers.fetches.models import Fetch, FetchState

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("messages")]

URL = "https://site.example/page"


class Planned(Exception):
    """What goes wrong in a transaction, on purpose."""


def test_a_url_is_queued_at_the_site_of_its_host() -> None:
    """The row that comes back is the row that is stored, with the database's times in it."""
    fetch = request_fetch("https://Site.example:443/page#part")
    stored = Fetch.objects.select_related("site").get()
    assert (stored.state, stored.url, stored.hop_url) == (FetchState.QUEUED, "https://Site.example:443/page#part", URL)
    assert stored.site is not None
    assert (stored.site.name, stored.site.has_backlog) == ("site.example", True)
    for field in Fetch._meta.concrete_fields:
        assert getattr(fetch, field.attname) == getattr(stored, field.attname), field.name


def test_a_fetch_that_came_back_can_be_changed() -> None:
    """The row is a model instance like any other: saving it updates, and does not insert."""
    fetch = request_fetch(URL)
    fetch.priority = 3
    fetch.save()
    assert Fetch.objects.get().priority == 3


def test_ten_thousand_urls_are_queued_in_one_call_and_in_their_order() -> None:
    """10,000 URLs on 100 sites take less than ten seconds, and age in the order in which they were given."""
    urls = [f"https://site-{number % 100}.example/{number}" for number in range(10_000)]
    began_at = time.monotonic()
    fetches = request_fetches(urls)
    assert time.monotonic() - began_at < 10
    assert [fetch.url for fetch in fetches] == urls
    assert [fetch.pk for fetch in fetches] == sorted(fetch.pk for fetch in fetches)
    assert list(Fetch.objects.order_by("not_before", "pk").values_list("url", flat=True)) == urls
    assert Site.objects.filter(has_backlog=True).count() == 100


def test_no_urls_are_no_fetches(messages: list[Message]) -> None:
    """An empty call does nothing and wakes no worker."""
    assert [*request_fetches([])] == []
    assert (Fetch.objects.count(), messages) == (0, [])


def test_a_generator_of_urls_is_taken_once() -> None:
    """Any iterable of texts will do, and the same URL may be asked for twice."""
    fetches = request_fetches(URL for _ in range(3))
    assert Fetch.objects.count() == len({fetch.pk for fetch in fetches}) == 3


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not a URL"),
        ("site.example", "write it whole"),
        ("ftp://site.example/", "scheme 'ftp'"),
        ("https://user:secret@site.example/", "credentials"),
        ("http://127.1/", "IPv4"),
        ("https://site.example/\0", "control characters"),
        ("https://site.example/\ud800", "half of a character"),
        ("\0\ud800", "control characters"),
        ("https://site.example/" + "x" * 100_000, "longer than"),
        ("http://10.0.0.1/", "10.0.0.1 is private; WEIR_FETCH_ALLOW_NETS can allow its network"),
        ("http://[::ffff:127.0.0.1]:8080/", "loopback"),
        ("http://8.8.8.8:6379/", "8.8.8.8: port 6379 is not allowed; WEIR_FETCH_ALLOW_PORTS can allow it"),
        ("http://site.example:25/", "port 25 is not allowed; WEIR_FETCH_ALLOW_PORTS can allow it"),
    ],
)
def test_what_is_no_url_is_stored_as_a_failure_that_says_why(text: str, reason: str, messages: list[Message]) -> None:
    """A bad text is accepted, ends immediately, and does not hinder others."""
    before, bad, after = request_fetches([URL, text, URL], on_done="shop.tasks.arrived")
    stored = Fetch.objects.get(pk=bad.pk)
    assert (stored.state, stored.site_id, bad.state) == (FetchState.FAILED, None, FetchState.FAILED)
    assert reason in stored.error == bad.error
    assert stored.finished_at is not None
    assert len(stored.url) <= 16_000
    assert {fetch.state for fetch in Fetch.objects.filter(pk__in=[before.pk, after.pk])} == {FetchState.QUEUED}
    assert ("shop.tasks.arrived", (bad.pk,)) in messages
    assert len([message for message in messages if message[0] == "shop.tasks.arrived"]) == 1
    assert stored.on_done_called_at is not None


def test_bad_texts_alone_create_no_site_and_wake_no_worker(messages: list[Message]) -> None:
    """A failure has no site."""
    request_fetches(["", "nonsense"])
    assert (Fetch.objects.count(), Site.objects.count(), messages) == (2, 0, [])


@pytest.mark.parametrize("host", ["☃.example", "faß☃.example", "BÜCHER.example", "ΑΣ.example"])
def test_a_rate_is_set_at_the_site_of_the_host_s_fetches(host: str) -> None:
    """However the host is written: the command and the URL use the same name."""
    call_command("sites", "set", host, "7/s")
    fetch = request_fetch(f"http://{host}/")
    assert [site.pk for site in Site.objects.all()] == [fetch.site_id]


def test_the_stored_text_keeps_all_that_can_be_stored() -> None:
    """Only what PostgreSQL cannot hold is replaced: the rest is there to be found again."""
    request_fetch("nonsense \0 \ud800 äöü 日本語")
    assert Fetch.objects.get().url == "nonsense \N{REPLACEMENT CHARACTER} ? äöü 日本語"


# --- what is refused ----------------------------------------------------------------------------------------------


@shared_task(name="shop.tasks.arrived")
def arrived(fetch_id: int) -> None:
    """Stand for a task of another app."""


YEAR_10000 = datetime(9999, 12, 31, 23, 59, 59, tzinfo=timezone(timedelta(hours=-12)))
REFUSED: dict[str, tuple[Any, dict[str, Any], type[Exception], str]] = {
    "one text": (URL, {}, TypeError, "use request_fetch for one URL"),
    "no text": ([URL, None], {}, TypeError, "Each URL must be a str, but item 1 is None"),
    "bytes": ([URL, URL, b"https://b.example/"], {}, TypeError, "but item 2 is b'https"),
    "a date": ([URL], {"not_before": date(2030, 1, 1)}, TypeError, "must be an aware datetime, not datetime.date"),
    "the year 10000": ([URL], {"not_before": YEAR_10000}, ValueError, "must be in the years 1 to 9999 of UTC, but is"),
    "a long name": ([URL], {"on_done": "t" * 201}, ValueError, "on_done must be of at most 200 characters, not 201"),
    "no such task": (
        [URL],
        {"on_done": "weir.workers.fetches.tasks.arived"},
        ValueError,
        "on_done names a task 'weir.workers.fetches.tasks.arived', which the app weir.workers.fetches does not have",
    ),
    "no task": ([URL], {"on_done": lambda _id: None}, TypeError, "on_done must be a Celery task or its name"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_call_that_cannot_be_meant_is_refused_in_a_sentence(case: str) -> None:
    """Nothing is stored, and the caller's transaction goes on: the database was not asked."""
    urls, options, error, sentence = REFUSED[case]
    with transaction.atomic():
        with pytest.raises(error, match=sentence):
            request_fetches(urls, **options)
        request_fetch("https://other.example/")
    assert list(Fetch.objects.values_list("url", flat=True)) == ["https://other.example/"]
    assert list(Site.objects.values_list("name", flat=True)) == ["other.example"]


@pytest.mark.parametrize("on_done", [arrived, "shop.tasks.arrived"])
def test_a_task_and_its_name_are_the_same_on_done(on_done: Any, messages: list[Message]) -> None:
    """Celery's users pass the task itself: its name is what is stored and called."""
    assert request_fetch("nonsense", on_done=on_done).on_done == "shop.tasks.arrived"
    assert [name for name, _arguments in messages] == ["shop.tasks.arrived"]


def test_the_longest_name_is_stored() -> None:
    """A name that fits the column is not refused."""
    request_fetch(URL, on_done="t" * 200)
    assert Fetch.objects.get().on_done == "t" * 200


# --- transactions -------------------------------------------------------------------------------------------------


def test_what_rolls_back_was_never_asked_for(messages: list[Message]) -> None:
    """A transaction that fails leaves no fetch and no message. A new site stays: it was committed immediately."""

    @transaction.atomic
    def fail() -> None:
        request_fetches([URL, "nonsense"], on_done="shop.tasks.arrived")
        raise Planned

    with pytest.raises(Planned):
        fail()
    assert (Fetch.objects.count(), Site.objects.count(), messages) == (0, 1, [])


def test_transactions_that_name_new_hosts_in_any_order_do_not_wait_for_each_other(in_threads: InThreads) -> None:
    """Each names the host that the other one named first."""
    both = threading.Barrier(2)

    def ask(number: int) -> None:
        first, second = ("n1", "n2") if number else ("n2", "n1")
        with transaction.atomic():
            request_fetch(f"https://{first}.example/")
            both.wait(10)
            request_fetch(f"https://{second}.example/")
            both.wait(10)

    in_threads(2, ask)
    assert (Fetch.objects.count(), Site.objects.count()) == (4, 2)


def test_workers_do_not_hear_of_it_before_the_commit(messages: list[Message]) -> None:
    """A message that overtakes its transaction would find nothing."""
    with transaction.atomic():
        request_fetches([URL, "nonsense"], on_done="shop.tasks.arrived")
        assert messages == []
    assert dispatch_message("site.example") in messages


def test_an_error_after_the_commit_does_not_reach_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fetches are stored by then: web code that has succeeded is not told that it failed."""

    def broken(*_arguments: object, **_options: object) -> None:
        raise RuntimeError("a broker's client that does not know its own errors")

    monkeypatch.setattr(app, "send_task", broken)
    with transaction.atomic():
        request_fetch(URL)
    request_fetch("https://other.example/")
    assert Fetch.objects.filter(state=FetchState.QUEUED).count() == 2


def test_a_commit_wakes_dispatch_once_for_idle_sites(messages: list[Message]) -> None:
    """However many fetches on however many idle sites one call queues, one message wakes dispatch."""
    request_fetches([f"https://site-{number % 5}.example/{number}" for number in range(50)])
    assert messages == [dispatch_message(*(f"site-{number}.example" for number in range(5)))]


def test_a_busy_site_costs_no_message(messages: list[Message]) -> None:
    """A site that dispatch looks at already sends no message."""
    request_fetch(URL)
    messages.clear()
    request_fetches([URL] * 10)
    assert messages == []


def test_a_site_that_fell_idle_wakes_dispatch_again(messages: list[Message]) -> None:
    """When dispatch has deactivated a site, the next fetch activates it."""
    fetch = request_fetch(URL)
    cancel(fetch.pk)
    backlog.deactivate([Site.objects.get().pk])
    messages.clear()
    request_fetch(URL)
    assert messages == [dispatch_message("site.example")]


def test_enqueueing_does_not_wait_for_reservations_of_the_site(other_connection: psycopg.Connection[object]) -> None:
    """Web code that asks for a fetch does not wait for the lock of its site's row."""
    request_fetch(URL)
    other_connection.execute("SELECT id FROM weir_ratelimit_site FOR NO KEY UPDATE")
    with waiting_for_nobody():
        request_fetch(URL)
    assert Fetch.objects.count() == 2


# --- sites --------------------------------------------------------------------------------------------------------


def site_of(url: str) -> str:
    fetch = Fetch.objects.select_related("site").get(pk=request_fetch(url).pk)
    assert fetch.site is not None
    return fetch.site.name


@pytest.mark.parametrize(
    ("url", "site"),
    [
        ("https://example.com/", "example.com"),
        ("https://www.example.com/", "example.com"),
        ("https://a.b.example.com/", "example.com"),
        ("https://own.example.com/", "own.example.com"),
        ("https://deep.own.example.com/", "example.com"),  # own.example.com covers itself alone
        ("https://a.shop.example.com/", "shop.example.com"),
        ("https://notexample.com/", "notexample.com"),
        ("https://www.example.com:8443/", "www.example.com:8443"),
        ("https://example.org/", "example.org"),
    ],
)
def test_a_url_goes_to_its_own_site_or_the_nearest_that_covers_it(url: str, site: str) -> None:
    """The site's own row wins, then the nearest ancestor that covers subdomains; else a site is created."""
    site_settings.set_rate("example.com", "2/s", covers_subdomains=True)
    site_settings.set_rate("shop.example.com", "3/s", covers_subdomains=True)
    site_settings.set_rate("own.example.com", "4/s")
    assert site_of(url) == site


def test_a_new_site_has_the_default_rate(settings: Settings) -> None:
    """A site need not be set up before its URLs are asked for."""
    settings.WEIR_DEFAULT_RATE = "1/7s"
    request_fetch(URL)
    assert Site.objects.get().interval == timedelta(seconds=7)


# --- options ------------------------------------------------------------------------------------------------------


def test_not_before_is_kept() -> None:
    """A fetch is due at its time and not earlier; without a time it is due immediately."""
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    later, now = request_fetch(URL, not_before=tomorrow), request_fetch(URL)
    assert Fetch.objects.get(pk=later.pk).not_before == tomorrow
    assert [fetch.pk for fetch in Fetch.objects.due()] == [now.pk]
    dispatch()
    assert Fetch.objects.get(pk=later.pk).state == FetchState.QUEUED
    assert Fetch.objects.get(pk=now.pk).state == FetchState.RESERVED


def test_priority_goes_first_then_age(messages: list[Message]) -> None:
    """Within a site the higher priority is dispatched first, and the older one among equals."""
    site_settings.set_rate("site.example", "1000/s")
    low, old, new, high = (request_fetch(URL, priority=priority).pk for priority in (-1, 0, 0, 7))
    messages.clear()
    dispatch()
    assert [task for task, _ in messages] == [task_names.FETCH_BATCH]
    assert [Fetch.objects.get(slot_id=slot_id).pk for slot_id in messages[0][1][0]] == [high, old, new, low]


@pytest.mark.parametrize("priority", [-32_769, 32_767, 32_768])
def test_a_priority_out_of_bounds_is_refused(priority: int) -> None:
    """The refusal names the bounds; nothing is stored."""
    with pytest.raises(ValueError, match=r"between -32768 and 32766, not .*: only what Weir itself asks for"):
        request_fetch(URL, priority=priority)
    assert not Fetch.objects.exists()


@pytest.mark.parametrize("priority", [-32_768, 32_766])
def test_the_bounds_of_priority_are_accepted(priority: int) -> None:
    """Both ends can be stored."""
    assert Fetch.objects.get(pk=request_fetch(URL, priority=priority).pk).priority == priority


@pytest.mark.parametrize("max_attempts", [0, -1, 32_768])
def test_an_impossible_number_of_attempts_is_refused(max_attempts: int) -> None:
    """At least one attempt is made."""
    with pytest.raises(ValueError, match="max_attempts"):
        request_fetch(URL, max_attempts=max_attempts)
    assert not Fetch.objects.exists()


def test_a_naive_time_is_refused() -> None:
    """A time without a zone would be another moment on another host."""
    with pytest.raises(ValueError, match="must have a time zone"):
        request_fetch(URL, not_before=datetime(2030, 1, 1))  # noqa: DTZ001  naive is the point
    assert not Fetch.objects.exists()
