"""Dispatch among very many: the best of a large backlog is found by the queue's index, as quickly as in a small one."""

import time
from datetime import timedelta

import pytest
from django.db import connection
from pytest_django import Settings

from tests.integration.conftest import database_now
from tests.integration.plans import plan_of
from tests.waiting import in_time
from weir.ratelimit.models import Site
from weir.workers.fetches.dispatch import dispatch

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("messages")]


SITES = 1_000
SLOTS = 6  # a dispatch reserves at most so many at each site
MOST_TIMES = 3  # as long as in a small backlog


def backlog(name: str, each: int) -> list[int]:
    """Make sites at which so many fetches are queued, and as many have ended; returns the ids of the sites."""
    sites = Site.objects.bulk_create(
        Site(name=f"{name}-{number}.example", interval=timedelta(seconds=0.333334), has_backlog=True)
        for number in range(SITES)
    )
    with connection.cursor() as cursor:
        cursor.execute(
            """
            INSERT INTO weir_fetches_fetch (
                url, hop_url, site_id, state, priority, not_before, status_code, finished_at,
                redirects, attempts, max_attempts, headers, etag, last_modified, error, on_done
            )
            SELECT 'https://site.example/' || n, '', site, CASE WHEN n %% 2 = 0 THEN 'queued' ELSE 'done' END,
                n %% 7, %(now)s - make_interval(secs => n %% 1000), 200,
                CASE WHEN n %% 2 = 0 THEN NULL ELSE %(now)s END, 0, 0, 5, '[]', '', '', '', ''
            FROM unnest(%(sites)s) AS site, generate_series(1, 2 * %(each)s) AS n
            """,
            {"now": database_now(), "sites": [site.pk for site in sites], "each": each},
        )
        cursor.execute("ANALYZE weir_fetches_fetch, weir_ratelimit_site, weir_ratelimit_slot")
    return [site.pk for site in sites]


def test_dispatch_finds_the_best_of_a_large_backlog_by_its_index(settings: Settings) -> None:
    """Among 400,000 fetches, picking reads the queue's index alone, and takes about as long as among few."""
    settings.WEIR_LOOKAHEAD = 2.0
    small, large = backlog("small", 2 * SLOTS), backlog("large", 200)
    parameters: dict[str, object] = {"lookahead": 2.0, "refill": 1.5, "after": 0, "sites": None}
    parameters |= {
        "most": 2_000,
        "most_slots": 2**31 - 1,
        "fewest": 4,
        "longest_run": 500,
        "delivery": 2.0,
        "travel": 0.1,
    }
    parameters |= {"apart": 0.0005, "phases": 500, "confirmed_for": 0.5, "added_grace": 0.0}
    nodes = plan_of("weir.workers.fetches", "dispatch", parameters)
    reads = [
        node for node in nodes if node.get("Relation Name") == "weir_fetches_fetch" and "Scan" in node["Node Type"]
    ]
    assert "weir_fetch_queue" in {node.get("Index Name") for node in reads}
    assert "Seq Scan" not in {node["Node Type"] for node in reads}
    small_s, large_s = took_s(small), took_s(large)
    print(f"\ndispatch from a large backlog took {large_s:.2f} s, {large_s / small_s:.2f} times as long")
    in_time(large_s < MOST_TIMES * small_s, "the end of a dispatch from a large backlog")


def took_s(sites: list[int]) -> float:
    """Dispatch at these sites; returns the time that it took. No fetcher has fallen behind with what it has sent."""
    began_at = time.monotonic()
    sent = dispatch(sites)
    took = time.monotonic() - began_at
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM weir_fetches_fetch WHERE state = 'reserved'")
    assert SITES * (SLOTS - 1) < sent <= SITES * SLOTS  # fewer for the sites that start last
    return took
