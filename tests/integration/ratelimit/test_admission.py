"""Requests that are let in keep the rate and burst of their site, however many ask together; none is refused early."""

import math
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.db.transaction import TransactionManagementError

from tests.integration.conftest import database_now
from tests.integration.ratelimit.conftest import SITE, site_at, take, wait_s
from weir.conf import settings
from weir.conf.texts.rates import parse_rate
from weir.ratelimit import site_settings, slots
from weir.ratelimit.admission import admit
from weir.ratelimit.models import Site
from weir.ratelimit.sites import UnknownSite
from weir.ratelimit.slots import SlotTooFar

pytestmark = pytest.mark.django_db(transaction=True)


def refused() -> float:
    """Return the seconds after which a refused request may come again."""
    with pytest.raises(SlotTooFar) as raised:
        admit(SITE, 0)
    return raised.value.retry_after


@pytest.mark.parametrize("burst", [1, 4, 100])
def test_a_whole_burst_is_let_in_and_then_one_an_interval(burst: int) -> None:
    site = site_at("1/10s", burst=burst)
    began_at = database_now()
    assert [admit(SITE, 0) for _ in range(burst)] == [0] * burst
    took_s = (database_now() - began_at).total_seconds()
    assert 10 - took_s - 0.5 < refused() <= 10
    Site.objects.update(next_start=database_now() + (burst - 1) * site.interval)
    assert admit(SITE, 0) == 0
    assert refused() > 9


def test_one_that_comes_a_little_too_soon_is_held_up() -> None:
    """It counts at the time until which it is delayed."""
    site_at("1/10s")
    assert admit(SITE, 15) == 0
    assert 9 < admit(SITE, 15) <= 10
    assert 19 < refused() <= 20


def test_no_more_are_let_in_than_the_rate_allows_however_many_ask_at_once() -> None:
    """Eight ask without a pause: a burst comes in, and then what the time allows, to within one."""
    site_at("50/s", burst=5)

    def ask(_number: int) -> int:
        let_in = 0
        for _ in range(60):
            try:
                admit(SITE, 0)
                let_in += 1
            except SlotTooFar:
                pass
        connection.close()
        return let_in

    began_at = database_now()
    with ThreadPoolExecutor(8) as threads:
        let_in = sum(threads.map(ask, range(8)))
    took_s = (database_now() - began_at).total_seconds()
    assert 5 < let_in <= 5 + 50 * took_s + 1


def test_requests_and_slots_of_one_site_count_for_each_other() -> None:
    site_at("1/10s")
    assert admit(SITE, 0) == 0
    assert 9 < wait_s(take()) <= 10
    assert 19 < refused() <= 21, "the slot's grace is between them"


def test_a_pause_lets_nothing_in() -> None:
    site_at("100/s")
    site_settings.pause(SITE, timedelta(seconds=30))
    assert 29 < refused() <= 30
    assert 29 < admit(SITE, 31) <= 30
    site_settings.pause(SITE)
    assert refused() == math.inf


def test_a_missing_site_is_created_at_the_default_rate() -> None:
    assert admit(SITE, 0) == 0
    assert Site.objects.get(name=SITE).interval == parse_rate(settings.WEIR_DEFAULT_RATE)


def test_a_host_that_shares_the_rate_of_a_site_above_it_has_none_to_be_let_in_at() -> None:
    """It is no missing site: the caller names the one that covers it."""
    site_settings.set_rate("example", "1/s", covers_subdomains=True)
    with pytest.raises(UnknownSite, match="covered by example"):
        admit(SITE, 0)


def test_a_slot_that_was_given_back_lets_nothing_in() -> None:
    """It is another caller's to take: a request that comes too soon is told when the site's clock lets it in."""
    site_at("1/10s")
    take()
    [slot] = take().slots
    assert slots.release(slot.id) == 1
    assert 19 < refused() <= 21


def test_it_refuses_a_transaction() -> None:
    """After a rollback, more requests would have been let in than the rate allows."""
    site_at("1/10s")  # a missing one would be refused by what creates it
    with transaction.atomic(), pytest.raises(TransactionManagementError):
        admit(SITE, 0)
