"""How long a site backs off: a stated time, or one that doubles with each refusal in a row."""

from datetime import timedelta
from typing import Any

import pytest
from pytest_django import Settings

from tests.integration.conftest import InThreads, database_now
from tests.integration.ratelimit.conftest import SITE, site_at, take
from weir.ratelimit import site_settings
from weir.ratelimit.models import Site
from weir.ratelimit.site_settings import LONGEST_BACK_OFF, QUIET, SHORTEST_BACK_OFF

pytestmark = pytest.mark.django_db(transaction=True)


def refuse(**stated: Any) -> float | None:
    """Refuse the start of a slot that is reserved now."""
    return site_settings.back_off(SITE, slot=take().slots[0].id, **stated)


def pass_by(seconds: float) -> None:
    """Let time pass for the site's back-off."""
    site = Site.objects.get()
    assert site.backed_off_until is not None
    Site.objects.update(backed_off_until=site.backed_off_until - timedelta(seconds=seconds))


def test_without_a_stated_time_each_refusal_in_a_row_doubles_it() -> None:
    """5, 10, 20 s and so on, up to an hour, and up to half of it more."""
    site_at()
    for level in range(14):
        seconds = refuse()
        least = min(LONGEST_BACK_OFF, SHORTEST_BACK_OFF * 2**level)
        assert seconds is not None
        assert least <= seconds <= 1.5 * least + 0.001
        pass_by(seconds)


def test_refusals_at_once_count_once(in_threads: InThreads) -> None:
    """A slot that was reserved before the back-off and is refused after it says nothing new."""
    site_at("100/s")
    ids = [slot.id for slot in take(8).slots]
    told = in_threads(8, lambda number: site_settings.back_off(SITE, slot=ids[number]))
    assert len([seconds for seconds in told if seconds is not None]) == 1
    assert Site.objects.get().backoff_level == 1
    pass_by(60)
    assert site_settings.back_off(SITE, slot=ids[0]) is None, "not even when the back-off is over"
    refuse()
    assert Site.objects.get().backoff_level == 2


def test_another_recall_hides_no_refusal() -> None:
    """A slot that was reserved before a change of the rate counts when it is refused."""
    site_at("100/s")
    slot_id = take().slots[0].id
    site_at("90/s")
    assert site_settings.back_off(SITE, slot=slot_id) is not None


def test_a_longer_stated_time_of_a_late_refusal_counts() -> None:
    """The site has said so, whichever of its answers it is."""
    site_at("100/s")
    first, second = (slot.id for slot in take(2).slots)
    assert site_settings.back_off(SITE, 10, slot=first) == pytest.approx(10, abs=0.1)
    assert site_settings.back_off(SITE, 60, slot=second) == pytest.approx(60, abs=0.1)
    assert site_settings.back_off(SITE, 20, slot=first) is None
    assert Site.objects.get().backoff_level == 1


def test_quiet_forgives() -> None:
    """After a minute without a refusal, or as long as the next back-off would have been, the series begins anew."""
    site_at()
    for _ in range(3):
        pass_by(refuse() or 0)
    pass_by(QUIET - 5)
    refuse()
    assert Site.objects.get().backoff_level == 4, "not long enough"
    pass_by(SHORTEST_BACK_OFF * 2**3 * 1.5 + SHORTEST_BACK_OFF * 2**4 + 1)
    assert (refuse() or 0) < 2 * SHORTEST_BACK_OFF
    assert Site.objects.get().backoff_level == 1


def test_a_stated_time_is_cut(settings: Settings) -> None:
    """A site that says a hundred years is asked again after a day."""
    settings.WEIR_RETRY_AFTER_MAX = 86_400.0
    site_at()
    assert refuse(seconds=3e9) == pytest.approx(86_400, abs=1)


def test_a_stated_moment_is_judged_by_the_databases_clock() -> None:
    """One that has passed counts as not stated."""
    site_at()
    assert refuse(until=database_now() + timedelta(seconds=30)) == pytest.approx(30, abs=1)
    pass_by(60)
    assert SHORTEST_BACK_OFF * 2 <= (refuse(until=database_now() - timedelta(hours=1)) or 0) < SHORTEST_BACK_OFF * 4


def test_resume_forgives() -> None:
    """After an operator resumed the site, the next back-off is the first one."""
    site_at()
    refuse()
    site_settings.resume(SITE)
    assert Site.objects.get().backoff_level == 0


def test_a_site_that_was_down_and_refuses_once_rests_for_the_shortest_time() -> None:
    """Being unreachable is another series of back-offs: the site may have just been started again."""
    site_at("100/s")
    for _ in range(8):
        site_settings.back_off(SITE, 1.0, error="no connection")
    assert Site.objects.get().backoff_level == 8
    pass_by(1.0)
    refused_s = refuse()
    assert refused_s is not None
    assert refused_s <= SHORTEST_BACK_OFF * 1.5
    assert (Site.objects.get().backoff_level, Site.objects.get().backoff_error) == (1, "")
