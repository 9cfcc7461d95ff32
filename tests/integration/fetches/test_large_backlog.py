"""Dispatch among very many: the best of a large backlog is found by the queue's index."""

import time
from datetime import timedelta

import pytest
from django.db import connection
from pytest_django import Settings

from tests.integration.conftest import database_now
from tests.integration.plans import plan_of
from weir.ratelimit.models import Site
from weir.workers.fetches.dispatch import dispatch

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("messages")]


@pytest.fixture
def large_backlog(settings: Settings) -> None:
    """Make 200,000 queued fetches at 1,000 sites, and as many that have ended; dispatch reserves two seconds ahead."""
    settings.WEIR_LOOKAHEAD = 2.0
    now = database_now()
    Site.objects.bulk_create(
        Site(name=f"site-{number}.example", interval=timedelta(seconds=0.333334), has_backlog=True)
        for number in range(1_000)
    )
    with connection.cursor() as cursor:
        cursor.execute(
            """
            INSERT INTO weir_fetches_fetch (
                url, hop_url, site_id, state, priority, not_before, status_code, finished_at,
                redirects, attempts, max_attempts, headers, etag, last_modified, error, on_done
            )
            SELECT 'https://site.example/' || n, '', site.id, CASE WHEN n %% 2 = 0 THEN 'queued' ELSE 'done' END,
                n %% 7, %(now)s - make_interval(secs => n %% 1000), 200,
                CASE WHEN n %% 2 = 0 THEN NULL ELSE %(now)s END, 0, 0, 5, '[]', '', '', '', ''
            FROM weir_ratelimit_site AS site, generate_series(1, 400) AS n
            """,
            {"now": now},
        )
        cursor.execute("ANALYZE weir_fetches_fetch, weir_ratelimit_site, weir_ratelimit_slot")


@pytest.mark.usefixtures("large_backlog")
def test_dispatch_finds_the_best_of_a_large_backlog_by_its_index() -> None:
    """Among 400,000 fetches, picking reads the queue's index alone, and a dispatch takes less than a second."""
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
    began_at = time.monotonic()
    sent = dispatch()
    took_s = time.monotonic() - began_at
    print(f"\ndispatch: {sent} slots over 1,000 sites from 200,000 queued in {took_s:.2f} s ({sent / took_s:.0f}/s)")
    assert 5_000 < sent <= 6_000  # fewer for the sites that start last
    assert took_s < 1
