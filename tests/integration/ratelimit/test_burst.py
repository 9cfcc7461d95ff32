"""A site with a burst keeps its rate by GCRA."""

from datetime import timedelta
from itertools import combinations

import pytest

from tests.integration.conftest import database_now
from tests.integration.ratelimit.conftest import site_at, starts, take, wait_s
from weir.ratelimit import site_settings
from weir.ratelimit.models import Site, Slot

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("burst", [2, 3, 5])
def test_a_burst_is_gcra(burst: int) -> None:
    """An idle site lets a burst pass, then one an interval: n + burst starts take n intervals at least."""
    site = site_at("1/10s", burst=burst)
    for _ in range(4 * burst):
        take()
    planned = starts()
    for (i, earlier), (j, later) in combinations(enumerate(planned), 2):
        assert later - earlier >= (j - i - (burst - 1)) * site.interval
    assert planned[burst - 1] - planned[0] <= burst * site.effective_grace
    assert planned[burst] - planned[burst - 1] > site.interval / 2


def test_a_run_at_a_site_with_a_burst_is_gcra_too() -> None:
    """The starts of one run and those of the next keep the rate together."""
    site = site_at("1/10s", burst=3)
    for count in (4, 1, 2, 5):
        take(count)
    for (i, earlier), (j, later) in combinations(enumerate(starts()), 2):
        assert later - earlier >= (j - i - 2) * site.interval


def test_a_burst_is_saved_up_again_while_the_site_is_idle() -> None:
    """As many starts pass together as intervals went by idle, and never more than the burst."""
    site = site_at("1/10s", burst=3)
    for _ in range(6):
        take()
    Site.objects.update(next_start=database_now() + 1.5 * site.interval)
    Slot.objects.all().delete()
    assert [wait_s(take()) <= 0.5 for _ in range(3)] == [True, False, False]


@pytest.mark.parametrize("slower", ["rate", "crawl delay"])
def test_a_burst_that_was_used_up_is_not_there_again_at_a_slower_rate(slower: str) -> None:
    """Five starts together use up the burst at the new rate, too: the sixth waits for the new interval."""
    site = site_at("1/s", burst=5)
    take(5)
    if slower == "rate":
        site_at("1/10s")
    else:
        site_settings.set_crawl_delay(site.pk, timedelta(seconds=10))
    assert wait_s(take()) > 9
