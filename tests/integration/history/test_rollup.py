"""The rollup adds each past minute to the totals once: they equal a count of all rows, by another query."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from ratelimit import site_settings
from ratelimit.models import Site, Slot
from tests.integration.conftest import database_now
from workers.fetches.models import Fetch
from workers.history import rollup
from workers.history.models import Minute, SiteMinute, Watermark
from workers.history.reports import minutes, site_minutes, totals

pytestmark = pytest.mark.django_db(transaction=True)

SITE = "site.example"
AGO = timedelta(minutes=20)  # since the history began: long before the trail


@pytest.fixture
def began() -> datetime:
    """Have a history that began twenty minutes ago; returns when."""
    minute = database_now().replace(second=0, microsecond=0) - AGO
    Watermark.objects.create(rolled_until=minute, epoch=0)
    return minute


def slots(site: Site, start: datetime, count: int = 1, **columns: Any) -> None:
    for number in range(count):
        at = start + timedelta(milliseconds=number)
        Slot.objects.create(
            site=site, start_time=at, use_until=at + timedelta(seconds=1), interval=timedelta(seconds=1), **columns
        )


def test_a_minute_is_counted(began: datetime) -> None:
    """One row a minute, one of its site, and totals; minutes in which nothing happened have rows of zeros."""
    site_settings.set_rate(SITE, "1/s")
    site = Site.objects.get()
    at = began + timedelta(seconds=70)
    slots(site, at, 3, finished_at=at)
    slots(site, at, 2, released_at=at)
    slots(site, at, 1)
    Fetch.objects.create(url="u", site=site, state="done", status_code=200, finished_at=at, lateness_ms=3.0)
    Fetch.objects.create(url="u", site=site, state="failed", error="the site answered 503", finished_at=at)

    rolled_up = rollup.roll_up()

    assert rolled_up >= 15
    assert Minute.objects.count() == rolled_up
    [busy] = Minute.objects.exclude(slots_used=0)
    assert busy.minute == began + timedelta(minutes=1)
    assert (busy.slots_used, busy.slots_given_back, busy.slots_unreported, busy.slots_allowed) == (3, 2, 1, 60)
    assert (busy.fetches_done, busy.fetches_failed, busy.refused, busy.lateness_p99_ms) == (1, 1, 1, 3.0)
    [of_site] = SiteMinute.objects.all()
    assert (of_site.site_id, of_site.slots_used, of_site.fetches_done) == (site.pk, 3, 1)
    assert totals() == {
        ("fetches_ended", "done"): 1,
        ("fetches_ended", "failed"): 1,
        ("fetch_failures", "refused"): 1,
        ("fetch_lateness", "5"): 1,
        ("fetch_lateness_sum_us", ""): 3_000,
        ("slots", "used"): 3,
        ("slots", "given back"): 2,
        ("slots", "unreported"): 1,
        ("slots_allowed", ""): 60,
        ("rollups", ""): rolled_up,
    }
    assert sum(point.slots_used or 0 for point in minutes(1, 60)) == 3
    assert sum(point.slots_used or 0 for point in site_minutes(site.pk, 1, 60)) == 3
