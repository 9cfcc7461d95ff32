"""Fetches follow their hosts to other sites: all queued ones, and those that come too late, before their request."""

from datetime import timedelta
from typing import Any

import psycopg
import pytest
from django.db import connection
from django.db.models.functions import Now
from django.utils import timezone

from tests.integration.conftest import Message
from tests.integration.plans import rows_read
from weir.ratelimit import site_settings
from weir.ratelimit.models import Site, Slot
from weir.ratelimit.sites import LOCK
from weir.workers import task_names
from weir.workers.fetches import dispatch as dispatching
from weir.workers.fetches import strays
from weir.workers.fetches.cancelling import cancel
from weir.workers.fetches.dispatch import dispatch
from weir.workers.fetches.enqueue import request_fetch, request_fetches
from weir.workers.fetches.maintenance.sweep import sweep
from weir.workers.fetches.models import Fetch, FetchState, RobotsFile, RobotsState

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("messages")]

SHOP, A = "shop.test", "a.shop.test"


def site(name: str) -> Site:
    return Site.objects.get(name=name)


def split() -> None:
    site_settings.set_rate(SHOP, "10/s", covers_subdomains=True)
    site_settings.set_rate(A, "10/s")


def stray(path: str = "late") -> Fetch:
    """Return a fetch whose site was looked up before the split, and that was committed after it."""
    fetch = request_fetch(f"https://{A}/{path}")
    Fetch.objects.filter(pk=fetch.pk).update(site=site(SHOP))
    Site.objects.filter(name=SHOP).update(has_backlog=True)
    return fetch


def slots_sent(messages: list[Message]) -> set[int]:
    return {slot for name, arguments in messages if name == task_names.FETCH_BATCH for slot in arguments[0]}


def test_a_backlog_follows_in_its_order_in_short_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Priorities, ages, fetches that are not due yet: every fetch of the host, and none of another."""
    monkeypatch.setattr(strays, "BATCH", 3)
    site_settings.set_rate(SHOP, "10/s", covers_subdomains=True)
    for priority in (3, 0, 32_766, -32_768, 0):
        request_fetches([f"http://{A}/{n}" for n in range(4)], priority=priority)
        request_fetches([f"http://{SHOP}/{n}" for n in range(3)], priority=priority)
    request_fetch(f"http://{A}/", not_before=timezone.now() + timedelta(days=1))
    before = list(Fetch.objects.order_by("pk").values_list("pk", "priority", "not_before"))
    site_settings.set_rate(A, "10/s")
    assert strays.follow_all(0) == 21
    assert set(Fetch.objects.filter(site=site(A)).values_list("hop_url", flat=True)) == {
        f"http://{A}/{n}" for n in ("", 0, 1, 2, 3)
    }
    assert Fetch.objects.filter(site=site(SHOP)).count() == 15
    assert list(Fetch.objects.order_by("pk").values_list("pk", "priority", "not_before")) == before
    assert not site(SHOP).has_strays
    assert site(A).has_backlog


def test_sweep_has_them_follow_also_from_a_site_that_is_paused() -> None:
    """A pause of the old site does not concern them."""
    site_settings.set_rate(SHOP, "10/s", covers_subdomains=True)
    fetch = request_fetch(f"http://{A}/")
    site_settings.pause(SHOP)
    site_settings.set_rate(A, "10/s")
    Site.objects.update(recalled_at=Now() - timedelta(seconds=1))
    sweep()
    fetch.refresh_from_db()
    assert fetch.site == site(A)


def test_a_site_is_seen_to_again_until_nothing_is_held_from_before_the_split(messages: list[Message]) -> None:
    """A fetch that a fetcher held comes back to the old site's queue, and is found there."""
    site_settings.set_rate(SHOP, "10/s", covers_subdomains=True)
    fetch = request_fetch(f"http://{A}/")
    assert dispatch() == 1
    site_settings.set_rate(A, "10/s")
    strays.follow_all(0)
    assert site(SHOP).has_strays
    Fetch.objects.update(state=FetchState.QUEUED, slot_id=None, lease_until=None)
    assert strays.follow_all(0) == 1
    fetch.refresh_from_db()
    assert (fetch.site, site(SHOP).has_strays) == (site(A), False)
    assert messages


def test_a_stray_that_is_reserved_is_taken_out_before_a_fetcher_hears_of_it(messages: list[Message]) -> None:
    """Whatever queued it after the split: slow web code, a retry, a redirect, a robots.txt."""
    split()
    late = stray()
    own = request_fetch(f"https://{SHOP}/")
    dispatch([site(SHOP).pk])
    late.refresh_from_db()
    own.refresh_from_db()
    assert (late.state, late.site, late.slot_id, late.lease_until) == (FetchState.QUEUED, site(A), None, None)
    assert own.state == FetchState.RESERVED
    assert own.slot_id in slots_sent(messages)
    assert Slot.objects.filter(site=site(SHOP), released_at__isnull=False).count() == 1
    assert site(A).has_backlog


def test_a_stray_whose_host_has_no_site_gets_one(settings: object) -> None:
    """The site that covered it does not do so any more."""
    site_settings.set_rate(SHOP, "10/s", covers_subdomains=True)
    late = request_fetch(f"https://{A}/")
    site_settings.set_rate(SHOP, covers_subdomains=False)
    Site.objects.filter(name=SHOP).update(recalled_at=None)
    dispatch()
    late.refresh_from_db()
    assert late.site == site(A)
    assert late.slot_id is None or Slot.objects.get(pk=late.slot_id).site == site(A)
    assert settings


def test_a_stray_succeeds_nobody(messages: list[Message]) -> None:
    """A cancelled fetch's slot is not passed on at a site that was ever split."""
    split()
    own = request_fetch(f"https://{SHOP}/")
    dispatch([site(SHOP).pk])
    late = stray()
    assert cancel(own.pk)
    late.refresh_from_db()
    assert (late.state, late.slot_id) == (FetchState.QUEUED, None)
    assert messages


def test_somebody_elses_row_holds_up_sweep_for_a_moment_only(other_connection: psycopg.Connection[Any]) -> None:
    """The other steps are taken, and the strays follow when the lock is released."""
    site_settings.set_rate(SHOP, "10/s", covers_subdomains=True)
    late = request_fetch(f"https://{A}/")
    site_settings.set_rate(SHOP, covers_subdomains=False)
    Site.objects.update(recalled_at=Now() - timedelta(seconds=1), has_backlog=False)
    other_connection.execute(
        "INSERT INTO weir_ratelimit_site (name, interval, burst, has_backlog, covers_subdomains) "
        "VALUES (%s, '1 s', 1, false, false)",
        [A],
    )
    sweep()
    assert (site(SHOP).has_backlog, site(SHOP).has_strays) == (True, True)
    other_connection.rollback()
    sweep()
    late.refresh_from_db()
    assert (late.site, site(SHOP).has_strays) == (site(A), False)


def test_what_robots_txt_files_say_follows_with_the_crawl_delays() -> None:
    """The new site keeps its host's Crawl-delay, the old one its own."""
    site_settings.set_rate(SHOP, "10/s", covers_subdomains=True, obeys_robots=True)
    for host, seconds in ((A, 20), (SHOP, 5)):
        RobotsFile.objects.create(
            origin=f"https://{host}",
            site=site(SHOP),
            state=RobotsState.RULES,
            crawl_delay=timedelta(seconds=seconds),
            refresh_at=timezone.now() + timedelta(hours=1),
            expires_at=timezone.now() + timedelta(hours=1),
        )
    site_settings.set_crawl_delay(site(SHOP).pk, timedelta(seconds=20))
    site_settings.set_rate(A, "10/s", obeys_robots=True)
    assert site(A).crawl_delay == timedelta(seconds=20)
    strays.follow_all(0)
    assert dict(RobotsFile.objects.values_list("origin", "site__name")) == {f"https://{h}": h for h in (A, SHOP)}
    assert (site(A).crawl_delay, site(SHOP).crawl_delay) == (timedelta(seconds=20), timedelta(seconds=5))


def test_a_batch_of_a_long_queue_costs_a_batch() -> None:
    """Wherever in the queue it begins."""
    site_settings.set_rate(SHOP, "10/s")
    request_fetches([f"http://{SHOP}/{n}" for n in range(3_000)])
    last = Fetch.objects.order_by("not_before", "pk")[2_000]
    place = {"site": site(SHOP).pk, "priority": 0, "not_before": last.not_before, "after": last.pk, "most": 100}
    assert len(strays.QUEUE(**place)) == 100
    assert rows_read("weir.workers.fetches", "queue", place, "weir_fetches_fetch") <= 200


def test_strays_that_wait_for_a_site_hold_up_no_other_site(
    messages: list[Message], monkeypatch: pytest.MonkeyPatch, other_connection: psycopg.Connection[Any]
) -> None:
    """Their slots are lost this time; dispatch goes on, and sends other fetches."""
    monkeypatch.setattr(dispatching, "SITES_A_STATEMENT", 1)
    site_settings.set_rate(SHOP, "10/s", covers_subdomains=True)
    late = request_fetch(f"https://{A}/")
    site_settings.set_rate(SHOP, covers_subdomains=False)
    Site.objects.update(recalled_at=None)
    other = request_fetch("https://other.test/")
    other_connection.execute("SELECT pg_advisory_lock(%s)", [LOCK])
    try:
        dispatch()
    finally:
        other_connection.execute("SELECT pg_advisory_unlock(%s)", [LOCK])
    late.refresh_from_db()
    other.refresh_from_db()
    assert other.state == FetchState.RESERVED
    assert slots_sent(messages) == {other.slot_id}


def test_a_split_site_that_is_locked_does_not_hold_up_sweep(
    other_connection: psycopg.Connection[Any],
) -> None:
    """A transaction holds its row: a later sweep records that its strays have followed."""
    split()
    Site.objects.update(recalled_at=Now() - timedelta(seconds=1))
    other_connection.execute("SELECT FROM weir_ratelimit_site WHERE name = %s FOR UPDATE", [SHOP])
    with connection.cursor() as cursor:
        cursor.execute("SET lock_timeout = '2s'")
    try:
        sweep()
    finally:
        with connection.cursor() as cursor:
            cursor.execute("RESET lock_timeout")
    assert site(SHOP).has_strays
    other_connection.rollback()
    sweep()
    assert not site(SHOP).has_strays


def test_a_long_queue_is_gone_through_by_several_sweeps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A million fetches take a minute, in which dispatch needs the worker processes."""
    monkeypatch.setattr(strays, "BATCH", 3)
    monkeypatch.setattr(strays, "FOLLOW_FOR_S", 0.0, raising=False)
    site_settings.set_rate(SHOP, "10/s", covers_subdomains=True)
    request_fetches([f"http://{host}/{n}" for n in range(4) for host in (A, SHOP)])
    site_settings.set_rate(A, "10/s")
    assert [strays.follow_all(0) for _ in range(4)] == [2, 1, 1, 0]
    assert not site(SHOP).has_strays
