"""A new rate holds from the next start on."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from tests.integration.conftest import Eventually, InThreads, WaitersOf, database_now
from tests.integration.ratelimit.conftest import SITE, site_at, take, wait_s
from weir.conf.texts.rates import InvalidRate
from weir.ratelimit import site_settings
from weir.ratelimit.models import Site
from weir.ratelimit.site_settings import DEFAULT
from weir.ratelimit.sites import UnknownSite

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_site_that_was_slow_is_not_bound_by_its_old_interval() -> None:
    """After the change the next start comes at the new distance from the last one."""
    site_at("1/h")
    take()
    site_at("10/s")
    assert wait_s(take()) < 0.5


def test_a_site_that_was_fast_is_bound_at_once() -> None:
    """The first start after the change already keeps the new interval from the last start before it."""
    site_at("100/s")
    take()
    site_at("1/h")
    assert 3590 < wait_s(take()) <= 3601


def test_a_site_that_was_fast_and_idle_keeps_the_new_interval_from_its_last_start() -> None:
    """The last start counts at the new rate, and the idle time since then counts for it."""
    site_at("100/s")
    take()
    Site.objects.update(next_start=database_now() - timedelta(minutes=20))
    site_at("1/h")
    assert 2300 < wait_s(take()) < 2500


def test_what_is_not_named_stays_as_it_is() -> None:
    """A change of rate keeps burst, grace, concurrency and what the site covers, unless they are named."""
    every = {"burst": 4, "max_concurrency": 7, "grace": timedelta(milliseconds=33), "covers_subdomains": True}
    site_settings.set_rate(
        SITE, "1/s", burst=4, max_concurrency=7, grace=timedelta(milliseconds=33), covers_subdomains=True
    )
    site_settings.set_rate(SITE, "2/s")
    assert Site.objects.values("interval", *every).get() == {"interval": timedelta(seconds=0.5), **every}
    site_settings.set_rate(SITE, "2/s", burst=1, covers_subdomains=False)
    assert Site.objects.values(*every).get() == {**every, "burst": 1, "covers_subdomains": False}


def test_without_a_rate_the_rate_stays_as_it_is() -> None:
    """One setting is changed alone, at a site that has others, and its clock goes on."""
    site_at("1/h", burst=4)
    take(2)
    reserved_until = Site.objects.get().next_start
    site_settings.set_rate(SITE, max_concurrency=2)
    site = Site.objects.get()
    assert (site.interval, site.burst, site.max_concurrency) == (timedelta(hours=1), 4, 2)
    assert site.next_start == reserved_until


def test_a_rate_that_another_transaction_is_setting_is_not_undone(
    other_connection: psycopg.Connection[Any], waiters: WaitersOf, eventually: Eventually, in_threads: InThreads
) -> None:
    """A change without a rate that waits for another change keeps that change's rate, not the one from before."""
    site_at("1/h")

    def change(_: int) -> None:
        site_settings.set_rate(SITE, burst=2)

    with ThreadPoolExecutor(1) as pool:
        other_connection.execute("UPDATE weir_ratelimit_site SET \"interval\" = '7 s'")
        waiting = pool.submit(in_threads, 1, change)
        eventually(lambda: waiters(other_connection) == 1, "the change of the burst to wait for that of the rate")
        other_connection.commit()
        waiting.result()
    assert Site.objects.values_list("interval", "burst").get() == (timedelta(seconds=7), 2)


def test_without_a_rate_no_site_is_created() -> None:
    """A site needs a rate: the refusal names the site."""
    with pytest.raises(UnknownSite, match=SITE):
        site_settings.set_rate(SITE, max_concurrency=2)
    assert not Site.objects.exists()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_concurrency", 7),
        ("grace", timedelta(milliseconds=33)),
        ("obeys_robots", False),
        ("refusing", [403, 429, 503]),
        ("headers", {"Accept": "text/csv"}),
    ],
)
def test_a_setting_goes_back_to_its_default(name: str, value: object) -> None:
    """`DEFAULT` undoes what was set, and nothing else."""
    others: dict[str, Any] = {"max_concurrency": 3, "grace": timedelta(milliseconds=50), "obeys_robots": True}
    others |= {"refusing": [429, 503], "headers": {"Accept": "text/html"}}
    site_at("1/s", **{**others, name: value})
    change: dict[str, Any] = {name: DEFAULT}
    site_settings.set_rate(SITE, **change)
    assert Site.objects.values("interval", *others).get() == {"interval": timedelta(seconds=1), **others, name: None}


def test_a_new_site_takes_defaults() -> None:
    """`DEFAULT` means the same for a new site as for one that exists."""
    site = site_at("1/s", max_concurrency=DEFAULT, grace=DEFAULT, obeys_robots=DEFAULT, refusing=DEFAULT)
    assert (site.max_concurrency, site.grace, site.obeys_robots, site.refusing) == (None, None, None, None)


def test_a_new_site_starts_with_the_defaults() -> None:
    """A site that an operator creates has burst 1, no limit of concurrency, and starts immediately."""
    site = site_at("3/s")
    assert (site.burst, site.max_concurrency, site.grace, site.covers_subdomains) == (1, None, None, False)
    assert wait_s(take()) <= 0


def test_statuses_that_refuse_come_beside_those_that_always_do() -> None:
    """They are kept in order, each once; other statuses than those of errors, and too many, are refused."""
    assert site_at("1/s", refusing=[999, 403, 429, 403]).refusing == [403, 429, 503, 999]
    assert site_at("1/s", refusing=[]).refusing == [429, 503]
    for statuses in ([200], [399], [1000], [403, -1], range(400, 419)):
        with pytest.raises(ValueError, match="refusing must be"):
            site_at("1/s", refusing=statuses)


@pytest.mark.parametrize("settings", [{"burst": 0}, {"burst": -1}, {"max_concurrency": 0}])
def test_an_impossible_setting_is_refused(settings: dict[str, int]) -> None:
    """The refusal names the setting, and the site stays as it was."""
    site_at("1/s", burst=2)
    with pytest.raises(ValueError, match=next(iter(settings))):
        site_at("5/s", **settings)
    assert Site.objects.values_list("interval", "burst").get() == (timedelta(seconds=1), 2)


@pytest.mark.parametrize("grace", [timedelta(milliseconds=14), timedelta(days=1, microseconds=1), timedelta.max])
def test_an_impossible_grace_is_refused(grace: timedelta) -> None:
    """The refusal names both bounds; a grace within them is accepted."""
    site_at("1/s", grace=timedelta(milliseconds=15))
    site_at("1/s", grace=timedelta(days=1))
    with pytest.raises(ValueError, match="grace must be between 15 ms and one day"):
        site_at("1/s", grace=grace)
    assert Site.objects.get().grace == timedelta(days=1)


def test_an_unreadable_rate_is_refused() -> None:
    """Nonsense creates no site."""
    with pytest.raises(InvalidRate):
        site_at("often")
    assert not Site.objects.exists()
