"""A site that is paused, backed off or given another rate voids its reserved slots, whichever process holds them."""

import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from django.db import OperationalError, connection

from tests.integration.conftest import InThreads, database_now
from tests.integration.ratelimit.conftest import SITE, site_at, take, wait_s
from tests.waiting import in_time
from weir.ratelimit import clock, site_settings, slots
from weir.ratelimit.models import Site
from weir.ratelimit.pacing import CONFIRMED_FOR_S

pytestmark = pytest.mark.django_db(transaction=True)

RECALLS: dict[str, Callable[[], object]] = {
    "paused": lambda: site_settings.pause(SITE, timedelta(minutes=10)),
    "backed off": lambda: site_settings.back_off(SITE, 600),
    "slower": lambda: site_settings.set_rate(SITE, "1/h"),
    "faster": lambda: site_settings.set_rate(SITE, "100/s"),
    "crawl delay": lambda: site_settings.set_crawl_delay(Site.objects.get().pk, timedelta(minutes=1)),
}


@pytest.mark.parametrize("how", RECALLS)
def test_what_is_reserved_before_is_void_and_what_is_reserved_after_stands(how: str) -> None:
    """Holders that ask about single slots, or for what was recalled lately, are told."""
    site = site_at()
    before = take(3)
    assert slots.confirm(before)
    assert slots.recalls(60) == []
    RECALLS[how]()
    after = take(3)
    assert not slots.confirm(before)
    assert slots.confirm(after)
    [recall] = slots.recalls(60)
    assert recall.site_id == site.pk
    assert before.slots[-1].id < (recall.last_slot or 0) < after.slots[0].id


UNCHANGED: dict[str, Callable[[], object]] = {
    "the same rate": lambda: site_settings.set_rate(SITE, "1/s"),
    "all the same": lambda: site_settings.set_rate(
        SITE,
        "1/s",
        burst=2,
        max_concurrency=3,
        grace=timedelta(seconds=0.1),
        obeys_robots=True,
        refusing=[403],
        covers_subdomains=True,
    ),
    "a crawl delay that is short": lambda: site_settings.set_crawl_delay(Site.objects.get().pk, timedelta(seconds=0.9)),
}


@pytest.mark.parametrize("how", UNCHANGED)
def test_what_changes_nothing_for_holders_recalls_nothing(how: str) -> None:
    """A schedule that says the same rate again and again loses no slot, and waits for no lock."""
    site_settings.set_rate(
        SITE, "1/s", burst=2, max_concurrency=3, grace=timedelta(seconds=0.1), obeys_robots=True, refusing=[403]
    )
    Site.objects.update(recalled_at=None)
    held, next_start = take(3), Site.objects.get().next_start
    began = clock.now()
    UNCHANGED[how]()
    in_time(clock.now() - began < CONFIRMED_FOR_S, "a change that changes nothing")
    assert slots.confirm(held)
    assert slots.recalls(60) == []
    assert Site.objects.get().next_start == next_start


@pytest.mark.parametrize(
    "change",
    [
        {"burst": 3},
        {"max_concurrency": 4},
        {"grace": timedelta(seconds=0.2)},
        {"obeys_robots": False},
        {"refusing": [403, 999]},
        {"refusing": site_settings.DEFAULT},
        {"rate": "1/2s"},
        {"max_concurrency": site_settings.DEFAULT},
        {"grace": site_settings.DEFAULT},
        {"obeys_robots": site_settings.DEFAULT},
    ],
    ids=str,
)
def test_every_change_that_matters_to_holders_recalls(change: dict[str, Any]) -> None:
    """They hold the run's old interval, burst, concurrency and end, and asked robots.txt or did not."""
    site_settings.set_rate(
        SITE, "1/s", burst=2, max_concurrency=3, grace=timedelta(seconds=0.1), obeys_robots=True, refusing=[403]
    )
    held = take(3)
    site_settings.set_rate(SITE, **{"rate": "1/s", **change})
    assert not slots.confirm(held)


def test_old_recalls_are_not_told_any_more() -> None:
    """The question costs little because it is about a short time."""
    site_at()
    site_settings.pause(SITE)
    assert len(slots.recalls(60)) == 1
    Site.objects.update(recalled_at=database_now() - timedelta(seconds=61))
    assert slots.recalls(60) == []


def test_a_faster_rate_does_not_wait_for_what_was_reserved_at_the_old_one() -> None:
    """Within a second starts come at the new rate, and none while a recalled slot may still be used."""
    site_at("1/10s")
    held = [take() for _ in range(3)]
    began = clock.now()
    site_at("100/s")
    first = take()
    assert began + CONFIRMED_FOR_S <= first.slots[0].start_at < began + 1.0
    assert not any(slots.confirm(reservation) for reservation in held)
    assert wait_s(take()) - wait_s(first) < 0.1


def test_a_given_back_start_that_was_recalled_is_not_taken() -> None:
    """Its place at the site may have gone to others at the new rate."""
    site_at("1/10s")
    held = [take() for _ in range(3)]
    slots.release(held[1].slots[0].id)
    site_at("1/7s")
    assert wait_s(take()) < wait_s(held[1]) - 0.5
    assert wait_s(take()) > wait_s(held[1]) + 3


def test_reservations_while_the_clock_is_set_back_keep_the_interval(in_threads: InThreads) -> None:
    """Whatever stands in the end is an interval apart."""
    site_at("1/s")
    taken = [take() for _ in range(3)]

    def one(number: int) -> None:
        if number == 0:
            site_settings.set_rate(SITE, "20/s")
            return
        until = clock.now() + 1.0
        while clock.now() < until:
            taken.append(take())
            time.sleep(0.15)

    in_threads(3, one)
    taken += [take(), take()]
    standing = sorted(r.slots[0].start_at for r in taken if slots.confirm(r))
    assert len(standing) >= 2
    assert min(later - earlier for earlier, later in pairwise(standing)) >= 0.05


@pytest.fixture
def standby() -> Iterator[None]:
    """Make this session see its database as a standby, which a client cannot tell from a primary by connecting."""
    with connection.cursor() as cursor:
        cursor.execute("CREATE SCHEMA fake")
        cursor.execute("CREATE FUNCTION fake.pg_is_in_recovery() RETURNS bool LANGUAGE sql AS 'SELECT true'")
        cursor.execute("SET search_path = fake, pg_catalog, public")
        yield
        cursor.execute("RESET search_path")
        cursor.execute("DROP SCHEMA fake CASCADE")


def test_a_standby_confirms_nothing(standby: None) -> None:  # noqa: ARG001  asked for its effect
    """It may be behind the primary, where the slot may have been recalled."""
    site_at()
    reservation = take(1)
    assert not slots.confirm(reservation)
    with pytest.raises(OperationalError, match="standby"):
        slots.recalls(60)
