"""The statements about webhooks find them by their index, whatever PostgreSQL's statistics say."""

from datetime import timedelta

import pytest
from django.db import connection

from tests.integration.plans import scanned
from weir.workers.fetches.enqueue.webhooks import HELD

pytestmark = pytest.mark.django_db

FILL = """
    INSERT INTO weir_webhooks_endpoint (name, url, secret, types, cursor)
    SELECT n, 'https://a.example/', 'HOOK', '{}', '' FROM generate_series(1, 3) AS n;
    INSERT INTO weir_fetches_fetch (
        url, hop_url, state, priority, max_attempts, status_code, finished_at, site_id, endpoint_id, error
    )
    SELECT
        'u', 'u', CASE WHEN n <= 500 THEN 'queued' ELSE 'done' END, 0, 5, 200, CASE WHEN n > 500 THEN now() END, 1,
        CASE WHEN n <= 1000 THEN 1 + n % 3 END, ''
    FROM generate_series(1, 20000) AS n;
"""
STATEMENTS: dict[tuple[str, str], dict[str, object]] = {
    ("weir.workers.fetches", "count_webhooks"): {"endpoint": 1, "most": 1_000},
    ("weir.workers.fetches", "queued_endpoints"): {},
    ("weir.workers.fetches", "purge_webhooks"): {"older_than": 60.0, "batch": 1_000},
    ("weir.workers.webhooks", "deliver_has_work"): {
        "newest": "x",
        "most": 1_000,
        "held": HELD,
        "woken_every": timedelta(minutes=15),
    },
    ("weir.ops", "webhooks_now"): {},
}


@pytest.mark.parametrize("analyzed", [False, True])
def test_other_fetches_are_not_read(*, analyzed: bool) -> None:
    with connection.cursor() as cursor:
        cursor.execute(FILL)
        if analyzed:
            cursor.execute("ANALYZE weir_webhooks_endpoint, weir_fetches_fetch")
    for (room, name), parameters in STATEMENTS.items():
        assert (name, scanned(room, name, parameters) & {"weir_fetches_fetch"}) == (name, set())
