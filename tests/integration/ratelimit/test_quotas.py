"""A site whose quota is used up rests, and has refused nothing."""

from datetime import timedelta
from typing import Any

import pytest
from pytest_django import Settings

from tests.integration.conftest import database_now
from tests.integration.ratelimit.conftest import SITE, site_at, take, wait_s
from weir.ratelimit import site_settings, slots
from weir.ratelimit.models import Site
from weir.ratelimit.site_settings import QUIET, SHORTEST_BACK_OFF
from weir.ratelimit.sites import UnknownSite

pytestmark = pytest.mark.django_db(transaction=True)

QUOTA = "its quota is used up (RateLimit)"


def refuse(**stated: Any) -> float:
    """Refuse the start of a slot that is reserved now."""
    return site_settings.back_off(SITE, slot=take().slots[0].id, reason="it answered 429", **stated) or 0.0


def rest(seconds: float) -> float | None:
    return site_settings.rest(SITE, seconds, reason=QUOTA)


def pass_by(seconds: float) -> None:
    """Let time pass for the site."""
    site = Site.objects.get()
    by = timedelta(seconds=seconds)
    Site.objects.update(
        backed_off_until=site.backed_off_until and site.backed_off_until - by,
        refused_until=site.refused_until and site.refused_until - by,
    )


def known() -> tuple[int, str, bool]:
    site = Site.objects.get()
    return site.backoff_level, site.backoff_reason, site.refused_until is not None


def test_nothing_starts_before_the_reset_and_what_was_reserved_is_recalled() -> None:
    """As with a back-off, but no refusal is counted."""
    site_at("100/s")
    held = take(3)
    assert rest(12) == pytest.approx(12, abs=0.1)
    assert not slots.confirm(held)
    assert wait_s(take()) == pytest.approx(12, abs=0.5)
    assert known() == (0, QUOTA, True)


def test_the_longest_holds_and_says_why() -> None:
    """Whichever of the two it is, and in whichever order they come."""
    site_at("100/s")
    refuse(seconds=30)
    assert rest(10) is None
    assert known() == (1, "it answered 429", False)
    assert rest(60) is not None
    assert known() == (1, QUOTA, True)
    assert rest(60.0) is not None, "a later end"
    assert refuse(seconds=5) > 55
    assert known() == (2, QUOTA, True)
    assert refuse(seconds=100) == pytest.approx(100, abs=0.1)
    assert known() == (3, "it answered 429", False)


def test_a_quota_neither_lengthens_back_offs_nor_keeps_their_row_from_ending() -> None:
    """A site that rests once a minute, and refuses once in a while, is backed off for the shortest time each time."""
    site_at("100/s")
    for _ in range(3):
        rest(20)
        pass_by(21)
    assert refuse() <= 1.5 * SHORTEST_BACK_OFF
    assert known()[0] == 1
    for _ in range(6):
        pass_by(QUIET / 3)
        rest(QUIET / 3)
    pass_by(QUIET / 3)
    assert refuse() <= 1.5 * SHORTEST_BACK_OFF
    assert known()[0] == 1, "two minutes without a refusal ended the row"


def test_a_refusal_of_a_slot_from_before_the_rest_counts() -> None:
    """The first 429 of a site counts as one refusal, although its quota was used up before."""
    site_at("100/s")
    slot = take().slots[0].id
    rest(1)
    assert site_settings.back_off(SITE, slot=slot) is not None
    assert known()[0] == 1


def test_a_site_whose_quota_is_used_up_is_reached() -> None:
    """The series of its failed connections is over."""
    site_at("100/s")
    site_settings.back_off(SITE, error="no connection")
    pass_by(1_000)
    rest(12)
    assert (Site.objects.get().backoff_error, known()) == ("", (0, QUOTA, True))


def test_a_rest_has_an_end(settings: Settings) -> None:
    """A site can close itself for WEIR_RETRY_AFTER_MAX at most; without a time, or with a past one, not at all."""
    settings.WEIR_RETRY_AFTER_MAX = 60.0
    site_at("100/s")
    assert rest(1e300) == pytest.approx(60, abs=0.1)
    site_settings.resume(SITE)
    assert (known(), Site.objects.get().backed_off_until) == ((0, "", False), None)
    assert site_settings.rest(SITE, until=database_now() - timedelta(seconds=1), reason=QUOTA) is None
    assert site_settings.rest(SITE, reason=QUOTA) is None
    assert site_settings.rest(SITE, until=database_now() + timedelta(seconds=9), reason=QUOTA) is not None
    with pytest.raises(UnknownSite):
        site_settings.rest("other.example", 9, reason=QUOTA)


def test_hosts_that_get_a_site_of_their_own_rest_on() -> None:
    """For the same reason."""
    site_settings.set_rate("shop.example", "10/s", covers_subdomains=True)
    site_settings.rest("shop.example", 60, reason=QUOTA)
    site_settings.set_rate("a.shop.example", "10/s")
    own = Site.objects.get(name="a.shop.example")
    assert (own.backoff_reason, own.refused_until is not None, own.backoff_level) == (QUOTA, True, 0)
    assert own.backed_off_until == Site.objects.get(name="shop.example").backed_off_until
