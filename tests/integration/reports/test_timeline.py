"""The timeline of a site: its slots from a minute ago to the look-ahead, each with its fate, and what starts next."""

import math
from datetime import timedelta

import pytest

from tests.integration.conftest import claim, database_now
from tests.integration.fetching import SITE, queue_pages, reserve_all
from weir.ratelimit import site_settings
from weir.ratelimit.models import Site, Slot
from weir.workers.fetches.fetcher.results.outcomes import judge
from weir.workers.fetches.fetcher.results.store import store
from weir.workers.fetches.jobs import Answer
from weir.workers.fetches.models import Fetch
from weir.workers.fetches.reports import timeline as reports
from weir.workers.fetches.reports.timeline import timeline

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("messages")]


@pytest.fixture
def site() -> Site:
    site_settings.set_rate(SITE, "10/s", grace=timedelta(seconds=10))
    return Site.objects.get(name=SITE)


def test_slots_of_a_run_are_shown_with_their_fetches(site: Site) -> None:
    """Fetches that have slots are named; the rest of the queue is estimated to start behind them."""
    queue_pages(5)
    reserved = reserve_all()
    queue_pages(3)

    seen = timeline(site.pk)

    assert [slot.id for slot in seen.slots] == reserved
    assert {slot.fate for slot in seen.slots} == {"reserved"}
    assert {(slot.run_id, slot.run_size) for slot in seen.slots} == {(reserved[0], 5)}
    by_slot = dict(Fetch.objects.filter(slot_id__isnull=False).values_list("slot_id", "pk"))
    assert {slot.id: slot.fetch_id for slot in seen.slots} == by_slot
    assert not seen.has_more
    queued = [start for start in seen.next_starts if not start.is_reserved]
    in_queue = Fetch.objects.filter(state="queued").order_by("pk").values_list("pk", flat=True)
    assert [start.id for start in queued] == list(in_queue)
    starts = [start.start_in_s for start in seen.next_starts]
    assert starts == sorted(starts)
    assert all(url.url.startswith("https://") for url in seen.next_starts)


def test_a_fetch_that_ended_shows_how_late_it_was(site: Site) -> None:
    """Its slot is used, and the fetch is named though it has ended."""
    queue_pages(1)
    reserve_all()
    [job] = claim(list(Fetch.objects.values_list("pk", flat=True)))
    answer = Answer(job=job, status_code=200, headers=(), body=b"page", lateness_ms=7.0, elapsed_ms=1.0)
    store([judge(answer, max_body=100, chance=0.5)])

    [slot] = timeline(site.pk).slots

    assert (slot.fate, slot.lateness_ms, slot.fetch_id) == ("used", 7.0, job.fetch_id)


def test_a_paused_site_starts_nothing(site: Site) -> None:
    """Its slots are void, and nobody knows when the queue starts."""
    queue_pages(2)
    reserve_all()
    queue_pages(1)
    Slot.objects.update(start_time=database_now() + timedelta(seconds=2))
    site_settings.pause(SITE)

    seen = timeline(site.pk)

    assert [slot.fate for slot in seen.slots] == ["void", "void"]
    assert [start.start_in_s for start in seen.next_starts if not start.is_reserved] == [math.inf]


def test_what_lies_far_from_now_is_left_out(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A minute ago and the look-ahead are the ends; of too many slots those nearest to now are shown."""
    now = database_now()
    for seconds in (-70, -50, -20, -10, 1, 2, 30):
        start = now + timedelta(seconds=seconds)
        Slot.objects.create(site_id=site.pk, start_time=start, use_until=start, finished_at=start)
    assert [round(slot.start_in_s) for slot in timeline(site.pk).slots] == [-50, -20, -10, 1, 2]

    monkeypatch.setattr(reports, "MOST_SLOTS", 3)
    seen = timeline(site.pk)
    assert [round(slot.start_in_s) for slot in seen.slots] == [-10, 1, 2]
    assert seen.has_more


def test_a_site_that_is_gone_has_only_slots(site: Site) -> None:
    """Its slots are history; nothing starts there."""
    start = database_now()
    Slot.objects.create(site_id=site.pk, start_time=start, use_until=start, finished_at=start)
    Site.objects.all().delete()

    seen = timeline(site.pk)

    assert [slot.fate for slot in seen.slots] == ["used"]
    assert seen.next_starts == []
