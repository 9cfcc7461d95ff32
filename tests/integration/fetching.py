"""What tests of fetches need: reservations as dispatch makes them, and claimed fetches, without a broker."""

from collections.abc import Callable
from datetime import timedelta

from django.db import connection

from tests.integration.conftest import claim
from tests.waiting import wait_for
from weir.ratelimit import site_settings
from weir.ratelimit.models import Site
from weir.workers.fetches.dispatch import DISPATCH, dispatch
from weir.workers.fetches.enqueue import request_fetches
from weir.workers.fetches.fetcher.fetcher import Fetcher
from weir.workers.fetches.jobs import Job
from weir.workers.fetches.models import Fetch
from weir.workers.schedule import TRAVEL

SITE = "site.example"


def queue_pages(pages: int, *, dedupe: bool = False) -> None:
    """Queue so many pages of every site: `request_fetches` would take ten times as long for thousands."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            INSERT INTO weir_fetches_fetch (url, hop_url, site_id, state, priority, max_attempts, dedupe_key)
            SELECT url, url, site_id, 'queued', 0, 5, CASE WHEN %s THEN md5(url)::uuid END
            FROM (
                SELECT 'https://' || site.name || '/' || page AS url, site.id AS site_id
                FROM generate_series(1, %s) AS page, weir_ratelimit_site AS site
                ORDER BY page, site.id
            ) AS pages
            """,
            [dedupe, pages],
        )
    Site.objects.update(has_backlog=True)


def reserve_all() -> list[int]:
    """Reserve for everything that is queued; returns the slots, as a message would carry them."""
    rows = DISPATCH(
        lookahead=30.0,
        refill=30.0,
        most=100,
        longest_run=100,
        most_slots=2**31 - 1,
        fewest=4,
        delivery=2.0,
        travel=TRAVEL,
        apart=0,
        phases=1,
        after=0,
        sites=None,
        confirmed_for=0,
        added_grace=0.0,
    )
    return [slot_id for row in rows for slot_id in row.slot_ids]


def running(count: int = 1, *, rate: str = "10/s", on_done: str | None = None) -> list[Job]:
    """Create fetches that a fetcher holds, and return its jobs; a busy machine may claim them late."""
    site_settings.set_rate(SITE, rate, grace=timedelta(seconds=10))
    request_fetches([f"https://{SITE}/{number}" for number in range(count)], on_done=on_done)
    assert dispatch() == count
    jobs = claim(list(Fetch.objects.values_list("pk", flat=True)))
    assert len(jobs) == count
    return jobs


def fetch_until(fetcher: Fetcher, condition: Callable[[], object], what: str) -> None:
    """Dispatch, as beat would, until the condition holds: what a busy machine made late is tried again."""

    def dispatched() -> object:
        if slot_ids := reserve_all():
            fetcher.run_batch(slot_ids)
        return condition()

    wait_for(lambda: condition() or dispatched(), 20, what, every_s=0.02)


def fetched(fetch: Fetch, fetcher: Fetcher) -> Fetch:
    """Dispatch until the fetch has ended."""
    unfinished = Fetch.objects.unfinished().filter(pk=fetch.pk)
    fetch_until(fetcher, lambda: not unfinished.exists(), "the end of the fetch")
    return Fetch.objects.get(pk=fetch.pk)
