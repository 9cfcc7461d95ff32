"""When hosts change their site, their new site's clock begins when the promises of the old one end."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from django.db import connections, transaction
from pytest_django import Settings

from tests.integration.conftest import Eventually, InThreads, WaitersOf, database_now
from tests.integration.ratelimit.conftest import DAY
from weir.ratelimit import site_settings, slots
from weir.ratelimit.models import Site, Slot
from weir.ratelimit.sites import create_sites, known_sites, sites_of

pytestmark = pytest.mark.django_db(transaction=True)

SHOP, A, BELOW_A = "shop.test", "a.shop.test", "x.a.shop.test"


def site(name: str) -> Site:
    return Site.objects.get(name=name)


def wait_s(name: str) -> float:
    """Return the seconds until the site's clock allows a start."""
    return (site(name).next_start - database_now()).total_seconds()


def stands(reservation: slots.Reservation) -> bool:
    return slots.confirm(reservation)


def covering(name: str, rate: str, **settings: Any) -> None:
    site_settings.set_rate(name, rate, covers_subdomains=True, **settings)


def test_a_new_site_waits_for_its_own_interval_and_what_was_reserved_for_it_is_void() -> None:
    """The last start at the old site may have been made a moment ago, or until half a second after the change."""
    covering(SHOP, "10/s")
    reserved = slots.reserve(A, 5)
    site_settings.set_rate(A, "1/h")
    assert not stands(reserved)
    assert 3599 < wait_s(A) <= 3601
    assert slots.reserve(SHOP).run.interval_s == 0.1


def test_the_old_sites_promise_holds_until_nobody_relies_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """At first the new clock is behind all that was reserved; half a second later it is set back."""
    covering(SHOP, "1/h")
    slots.reserve(A)
    slots.reserve(A, max_wait=DAY)
    promised = site(SHOP).next_start - site(SHOP).effective_interval
    born: list[Site] = []
    monkeypatch.setattr("weir.ratelimit.site_settings.time.sleep", lambda _s: born.append(site(A)))
    site_settings.set_rate(A, "10/s")
    assert born[0].next_start == promised + timedelta(seconds=0.1)
    assert wait_s(A) < 1


def test_a_burst_does_not_begin_with_the_split() -> None:
    """It counts as used up: the host may just have been asked."""
    covering(SHOP, "10/s")
    slots.reserve(A)
    site_settings.set_rate(A, "1/h", burst=5)
    assert 3599 < slots.estimate(A) <= 3601


def test_a_back_off_goes_with_the_hosts_and_a_pause_does_not() -> None:
    """The hosts have refused; an operator's pause is about the site that was named."""
    covering(SHOP, "10/s")
    site_settings.back_off(A, 600)
    site_settings.pause(SHOP)
    site_settings.set_rate(A, "10/s")
    assert 590 < slots.estimate(A) <= 601
    assert site(A).paused_until is None


def test_a_crawl_delay_holds_until_it_is_settled() -> None:
    """The file that asks for it may belong to any of the hosts."""
    covering(SHOP, "10/s")
    site_settings.set_crawl_delay(site(SHOP).pk, timedelta(hours=1))
    site_settings.set_rate(A, "10/s")
    assert site(A).effective_interval == timedelta(hours=1)
    assert wait_s(A) > 3590


def test_hosts_without_a_site_begin_where_the_site_that_covered_them_ended(settings: Settings) -> None:
    """Their sites are created when they are needed: the old site's row keeps what it had promised."""
    settings.WEIR_DEFAULT_RATE = "1/h"
    covering(SHOP, "10/s")
    reserved = slots.reserve(A, 5)
    site_settings.set_rate(SHOP, covers_subdomains=False)
    assert not stands(reserved)
    sites_of({A, "never.shop.test"})
    assert 3590 < wait_s(A) <= 3601
    site_settings.set_rate(SHOP, "10/s")
    assert site(SHOP).has_strays


def test_a_site_that_begins_to_cover_takes_hosts_over() -> None:
    """Hosts below it belonged to a site above it: its clock is their clock now, and must know of their last starts."""
    covering(SHOP, "10/s")
    site_settings.set_rate(A, "1/h")
    before = site(A).next_start
    reserved = slots.reserve(BELOW_A)
    site_settings.set_rate(A, covers_subdomains=True)
    assert not stands(reserved)
    assert site(A).next_start > before
    assert known_sites({BELOW_A})[BELOW_A].name == A


def test_a_site_that_ceases_to_cover_gives_hosts_back_to_the_site_above_it() -> None:
    """Slots of the upper site that were given back, or are held, are not for these hosts: it is recalled, too."""
    covering(SHOP, "1/10s")
    covering(A, "10/s")
    of_shop, of_a = slots.reserve(SHOP), slots.reserve(BELOW_A)
    site_settings.set_rate(A, covers_subdomains=False)
    assert not stands(of_shop)
    assert not stands(of_a)
    assert known_sites({BELOW_A})[BELOW_A].name == SHOP
    assert wait_s(SHOP) > 9


def test_a_change_that_moves_no_host_recalls_nothing() -> None:
    """A new site that no site above covers, and a site that is set again as it is."""
    covering(SHOP, "10/s")
    reserved = slots.reserve(A)
    covering(SHOP, "10/s")
    site_settings.set_rate("other.test", "10/s")
    assert stands(reserved)
    assert not Site.objects.filter(has_strays=True).exists()
    assert not Site.objects.filter(split_until__isnull=False).exists()


def test_a_reservation_that_meets_a_split_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """It had looked up the site that covered the host. Slots reserved there after the split are not recalled."""
    covering(SHOP, "10/s")
    looked_up = slots._covered_or_created

    def split_behind(host: str) -> str:
        found = looked_up(host)
        site_settings.set_rate(A, "10/s")
        return found

    monkeypatch.setattr(slots, "_covered_or_created", split_behind)
    reservation = slots.reserve(A)
    assert reservation.site == A
    of_shop = Slot.objects.get(site=site(SHOP))
    assert of_shop.released_at is not None


def test_a_host_that_comes_to_be_covered_gets_no_site_of_its_own() -> None:
    """A process that saw no covering site creates one for the host: it looks again, under the lock."""
    covering(SHOP, "10/s")
    assert create_sites([A]) == {}
    assert not Site.objects.filter(name=A).exists()


@pytest.mark.parametrize("change", [lambda: site_settings.set_rate(A, "1/s"), lambda: covering("test", "1/s")])
def test_changes_of_what_belongs_where_wait_for_each_other(change: Callable[[], None], in_threads: InThreads) -> None:
    """However many run together: none deadlocks, and no host has two clocks that know nothing of each other."""
    covering(SHOP, "1000/s")

    def one(number: int) -> None:
        if number % 2:
            change()
        else:
            sites_of({A, f"n{number}.other.test", f"m{number}.other.test"})

    in_threads(6, one)
    assert Site.objects.filter(name=A).count() <= 1


def test_a_site_that_is_created_is_committed_though_its_caller_is_not() -> None:
    """No process waits for the caller's transaction, which may be long; the site stays if that is rolled back."""
    with transaction.atomic():
        created = sites_of({A})
        transaction.set_rollback(True)
    assert site(A).pk == created[A]


def test_a_back_off_is_not_forgotten_when_hosts_get_their_sites_later() -> None:
    """A host refused for an hour; its site ceases to cover it; then the host's own site is created, in any way."""
    covering(SHOP, "10/s")
    site_settings.back_off(A, 3600)
    site_settings.set_rate(SHOP, covers_subdomains=False)
    site_settings.set_rate(A, "10/s")
    create_sites(["b.shop.test"])
    site_settings.set_rate("b.shop.test", "10/s")
    assert slots.estimate(A) > 3590
    assert slots.estimate("b.shop.test") > 3590


@pytest.mark.parametrize(
    ("covers_still", "make"),
    [
        (True, lambda: site_settings.set_rate(A, "10/s")),
        (False, lambda: site_settings.set_rate(A, "10/s")),
        (False, lambda: create_sites([A])),
    ],
)
def test_a_row_of_back_offs_goes_on_at_the_hosts_own_site(make: Callable[[], object], *, covers_still: bool) -> None:
    """A site that cannot be reached is not tried every five seconds again because its name has got a site."""
    covering(SHOP, "10/s")
    slot = slots.reserve(A).slots[0].id
    for _ in range(3):
        site_settings.back_off(A, error="no connection")
    if not covers_still:
        site_settings.set_rate(SHOP, covers_subdomains=False)
    make()
    assert (site(A).backoff_level, site(A).backoff_error) == (3, "no connection")
    assert site_settings.back_off(A, slot=slot, error="no connection") is None, "it belongs to the last back-off"
    site_settings.back_off(A, error="no connection")
    assert site(A).backoff_level == 4


def test_a_row_of_back_offs_that_is_over_counts_no_more_at_the_hosts_own_site() -> None:
    """The end of the series is inherited, too; the next back-off is judged by it."""
    covering(SHOP, "10/s")
    for _ in range(3):
        site_settings.back_off(A, error="no connection")
    Site.objects.update(backed_off_until=database_now() - timedelta(hours=1))
    site_settings.set_rate(SHOP, covers_subdomains=False)
    create_sites([A])
    site_settings.back_off(A, error="no connection")
    assert site(A).backoff_level == 1


def test_a_site_whose_row_is_locked_does_not_keep_other_hosts_from_getting_theirs(
    other_connection: psycopg.Connection[Any], waiters: WaitersOf, eventually: Eventually
) -> None:
    """An operator changes its rate, and waits for a transaction; meanwhile web code asks for a new host."""
    covering(SHOP, "10/s")
    other_connection.execute("SELECT FROM weir_ratelimit_site WHERE name = %s FOR UPDATE", [SHOP])
    with ThreadPoolExecutor(1) as pool:

        def change() -> None:
            try:
                site_settings.set_rate(SHOP, "5/s")
            finally:
                connections.close_all()

        changing = pool.submit(change)
        try:
            eventually(lambda: waiters(other_connection), "the change to wait")
            assert create_sites(["unrelated.test"], patience_s=1.0)
        finally:
            other_connection.rollback()
            changing.result(20)
