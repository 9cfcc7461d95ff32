"""Results and slots are kept for the time that the settings name, and go in short batches that wait for no lock."""

from datetime import timedelta
from typing import Any

import psycopg
import pytest
from pytest_django import Settings

from tests.integration.conftest import database_now, waiting_for_nobody
from weir.ratelimit.models import Site, Slot
from weir.workers.fetches.maintenance import purge as purging
from weir.workers.fetches.maintenance.purge import purge
from weir.workers.fetches.models import FINAL, Fetch, FetchBody, FetchState, RobotsFile
from weir.workers.tasks import purge_slots

pytestmark = pytest.mark.django_db(transaction=True)

DAY = timedelta(days=1)


@pytest.fixture(autouse=True)
def _retention(settings: Settings) -> None:
    settings.WEIR_FETCH_RETENTION = 30 * 86_400.0
    settings.WEIR_SLOT_RETENTION = 3_600.0


@pytest.fixture(autouse=True)
def site() -> Site:
    """Return a site."""
    return Site.objects.create(name="site.example", interval=timedelta(seconds=1))


def ended(
    site: Site, age: timedelta, count: int = 1, state: FetchState = FetchState.DONE, *, body: bool = True
) -> list[Fetch]:
    """Create fetches that ended that long ago."""
    fetches = Fetch.objects.bulk_create(
        Fetch(url="u", site=site, state=state, finished_at=database_now() - age, status_code=200, error="e")
        for _ in range(count)
    )
    if body:
        FetchBody.objects.bulk_create(FetchBody(fetch=fetch, own=b"x") for fetch in fetches)
    return fetches


@pytest.mark.parametrize("state", FINAL)
def test_what_ended_long_ago_goes_with_its_body(state: FetchState, site: Site) -> None:
    """Done, failed or cancelled: after its retention a fetch goes; a younger one stays."""
    ended(site, 31 * DAY, state=state)
    [young] = ended(site, 29 * DAY, state=state)
    assert purge() == 1
    assert [fetch.pk for fetch in Fetch.objects.all()] == [young.pk]
    assert [body.pk for body in FetchBody.objects.all()] == [young.pk]


@pytest.mark.parametrize("state", [FetchState.QUEUED, FetchState.RESERVED, FetchState.RUNNING])
def test_what_has_not_ended_is_never_purged(state: FetchState, site: Site) -> None:
    """However old, an accepted fetch ends in a result or a stated failure."""
    old = database_now() - 365 * DAY
    Fetch.objects.create(url="u", site=site, state=state, created_at=old, not_before=old, slot_id=1, lease_until=old)
    assert purge() == 0
    assert Fetch.objects.count() == 1


def test_past_slots_go_and_the_site_stays(site: Site) -> None:
    """Slots are history: those beyond their retention go, however they ended; the site's clock stays."""
    now = database_now()
    for age in (-1, 0.5, 2, 3):
        start = now - timedelta(hours=age)
        Slot.objects.create(site=site, start_time=start, use_until=start)
    next_start = Site.objects.get().next_start
    purge_slots()
    assert [slot.start_time > now - timedelta(hours=1) for slot in Slot.objects.all()] == [True, True]
    assert Site.objects.get().next_start == next_start


def test_robots_files_go_when_they_have_not_counted_for_a_week(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Origins that no fetch needs any more are forgotten, in short batches; the others stay."""
    monkeypatch.setattr(purging, "BATCH", 3)
    now = database_now()
    for number, age in enumerate([*[8 * DAY] * 7, 6 * DAY, -DAY]):
        end = now - age
        RobotsFile.objects.create(origin=f"{number}", site=site, state="allowed", refresh_at=end, expires_at=end)
    assert purge() == 0
    assert sorted(RobotsFile.objects.values_list("origin", flat=True)) == ["7", "8"]


def test_purging_goes_on_until_a_batch_is_short(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many short batches as it takes, with all bodies, and the sum of them."""
    monkeypatch.setattr(purging, "BATCH", 10)
    ended(site, 31 * DAY, 45)
    ended(site, 1 * DAY, 3)
    assert purge() == 45
    assert (Fetch.objects.count(), FetchBody.objects.count()) == (3, 3)
    assert purge() == 0


def test_more_than_one_batch_of_the_real_size_goes(site: Site) -> None:
    """The size of a batch is no limit to a purge."""
    ended(site, 31 * DAY, purging.BATCH + 500, body=False)
    assert purge() == purging.BATCH + 500


def test_what_others_hold_is_left_for_the_next_time(site: Site, other_connection: psycopg.Connection[Any]) -> None:
    """A locked row is skipped, and never waited for."""
    held, *_ = ended(site, 31 * DAY, 5)
    other_connection.execute("SELECT 1 FROM weir_fetches_fetch WHERE id = %s FOR UPDATE", [held.pk])
    with waiting_for_nobody():
        assert purge() == 4
    assert FetchBody.objects.get().pk == held.pk
    other_connection.rollback()
    assert purge() == 1


def test_a_site_that_others_hold_stops_no_purge(site: Site, other_connection: psycopg.Connection[Any]) -> None:
    """Its Crawl-delay, which counts no more, is removed the next time; all else goes now."""
    Site.objects.update(crawl_delay=timedelta(seconds=5))
    ended(site, 31 * DAY)
    other_connection.execute("SELECT 1 FROM weir_ratelimit_site FOR UPDATE")
    with waiting_for_nobody():
        assert purge() == 1
    assert Site.objects.get().crawl_delay
    other_connection.rollback()
    assert purge() == 0
    assert Site.objects.get().crawl_delay is None
