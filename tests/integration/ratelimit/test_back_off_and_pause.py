"""A site that was backed off or paused starts nothing meanwhile, and forgets no start."""

import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pytest_django import Settings

from tests.integration.conftest import InThreads, database_now
from tests.integration.ratelimit.conftest import SITE, site_at, take, wait_s
from weir.ratelimit import models, site_settings, slots
from weir.ratelimit.models import Site
from weir.ratelimit.sites import UnknownSite

pytestmark = pytest.mark.django_db(transaction=True)


def backed_off_for() -> float:
    until = Site.objects.get(name=SITE).backed_off_until
    assert until is not None
    return (until - database_now()).total_seconds()


@pytest.mark.parametrize("seconds", [(60, 5), (5, 60), (60, 60)])
def test_the_longest_back_off_counts(seconds: tuple[int, int]) -> None:
    """Calls overlap: a shorter one never shortens, and they never add up."""
    site_at()
    for each in seconds:
        site_settings.back_off(SITE, each)
    assert 59 < backed_off_for() <= 60
    assert 59 < wait_s(take()) <= 60


def test_simultaneous_back_offs_count_once(in_threads: InThreads) -> None:
    """N answers of 429 at one moment are one back-off."""
    site_at()
    in_threads(8, lambda _number: site_settings.back_off(SITE, 60))
    assert 55 < backed_off_for() <= 60


def test_a_back_off_keeps_given_back_starts_from_being_taken() -> None:
    """Starts within the back-off are void, for their holders and for later reservations."""
    site_at()
    held = [take() for _ in range(3)]
    slots.release(held[1].slots[0].id)
    site_settings.back_off(SITE, 60)
    assert wait_s(take()) > 55


def test_a_back_off_needs_a_site() -> None:
    """An unknown site is refused."""
    with pytest.raises(UnknownSite, match=r"manage\.py sites"):
        site_settings.back_off("unknown.example", 5)


@pytest.mark.parametrize(
    ("stated", "sentence"),
    [
        ({"seconds": -1}, "not negative, but is -1"),
        ({"seconds": math.nan}, "not negative, but is nan"),
        ({"until": datetime(2100, 1, 1)}, "until must have a time zone"),  # noqa: DTZ001  naive is the point
        ({"seconds": 5, "until": datetime(2100, 1, 1, tzinfo=UTC)}, "seconds or until, not both"),
    ],
)
def test_a_back_off_for_no_time_is_refused(stated: dict[str, Any], sentence: str) -> None:
    """An ambiguous or impossible time changes nothing."""
    site_at()
    with pytest.raises(ValueError, match=sentence):
        site_settings.back_off(SITE, **stated)
    assert Site.objects.get().backed_off_until is None


@pytest.mark.parametrize("stated", [{"seconds": math.inf}, {"until": datetime(9999, 12, 31, tzinfo=UTC)}])
def test_a_back_off_for_ever_is_cut_like_every_long_one(stated: dict[str, Any], settings: Settings) -> None:
    """A site can ask for as much as it likes."""
    settings.WEIR_RETRY_AFTER_MAX = 600
    site_at()
    assert site_settings.back_off(SITE, **stated) == pytest.approx(600, abs=0.1)


@pytest.mark.parametrize("duration", [timedelta(microseconds=-1), timedelta.min, timedelta(days=36_601), timedelta.max])
def test_a_pause_for_no_possible_time_is_refused(duration: timedelta) -> None:
    """It is neither ignored silently, nor does it fail in the database."""
    site_at()
    with pytest.raises(ValueError, match=r"duration must not be negative, and at most 100 years, but is "):
        site_settings.pause(SITE, duration)
    assert Site.objects.get().paused_until is None


def test_the_longest_pause_ends() -> None:
    """A hundred years are not for ever."""
    site_at()
    site_settings.pause(SITE, timedelta(days=36_600))
    assert slots.estimate(SITE) == pytest.approx(models.FARTHEST_S, abs=60)


def test_a_pause_starts_nothing_until_its_end() -> None:
    """What is reserved during a pause starts after it."""
    site_at()
    site_settings.pause(SITE, timedelta(minutes=10))
    assert 599 < wait_s(take()) <= 600


def test_a_pause_replaces_the_one_before() -> None:
    """A shorter pause shortens: the operator's last word counts."""
    site_at()
    site_settings.pause(SITE)
    site_settings.pause(SITE, timedelta(minutes=10))
    assert slots.estimate(SITE) <= 600


def test_resume_ends_a_pause_and_a_back_off() -> None:
    """A resumed site starts immediately if it is free."""
    site_at()
    site_settings.pause(SITE)
    site_settings.back_off(SITE, 600)
    site_settings.resume(SITE)
    assert wait_s(take()) <= 0


def test_resume_forgets_no_start() -> None:
    """The clock of the site outlives pause and resume."""
    site = site_at()
    take()
    site_settings.pause(SITE)
    site_settings.resume(SITE)
    assert wait_s(take()) > site.interval.total_seconds() - 1


@pytest.mark.parametrize("call", [site_settings.pause, site_settings.resume])
def test_an_unknown_site_is_neither_paused_nor_resumed(call: Callable[[str], None]) -> None:
    """A mistyped name is an error, and creates no site."""
    with pytest.raises(UnknownSite, match=r"unknown\.example"):
        call("unknown.example")
    assert not Site.objects.exists()
