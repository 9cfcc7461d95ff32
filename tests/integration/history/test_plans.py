"""The rollup finds the rows of its minute by indexes, whatever the statistics say, among hours of others."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection, transaction

from tests.integration.conftest import database_now
from tests.integration.plans import believe_empty, plan_of, rows_read_by
from tests.rooms import statement
from weir.postgres import planner
from weir.workers.history.rollup import LATENESS_MS, MOST_SITES

pytestmark = pytest.mark.django_db

HOURS, EACH = 2, 500  # slots, and ended fetches, of each minute
RANGE = 128 * 100  # rows of one block range, at most
ROWS = """
INSERT INTO weir_ratelimit_site (id, name, "interval", burst, has_backlog, covers_subdomains)
SELECT n, 's' || n || '.example', '1 s', 1, false, false FROM generate_series(1, 50) AS n;
INSERT INTO weir_ratelimit_slot (site_id, start_time, use_until, "interval", run_size, finished_at)
SELECT 1 + n %% 50, at, at, '1 s', 1, at
FROM generate_series(1, %(all)s) AS n, LATERAL (SELECT now() - n * interval '1 minute' / %(each)s AS at) AS moment
ORDER BY at;
INSERT INTO weir_fetches_fetch (url, hop_url, site_id, state, priority, max_attempts, finished_at, status_code, slot_id)
SELECT 'u', 'u', 1 + n %% 50, 'done', 0, 5, now() - n * interval '1 minute' / %(each)s, 200, n
FROM generate_series(1, %(all)s) AS n;
INSERT INTO weir_mail_email (
    kind, key, recipient, state, message_id, attempts, claimed_by, phase, last_reply, sent_at, ended_at
)
SELECT 'k', n, 'a@b.example', 'sent', n, 1, '', '', '', at, at
FROM generate_series(1, %(all)s) AS n, LATERAL (SELECT now() - n * interval '1 minute' / %(each)s AS at) AS moment
ORDER BY at;
"""
TABLES = ("weir_ratelimit_slot", "weir_fetches_fetch", "weir_mail_email", "weir_ratelimit_site")


@pytest.fixture(scope="module")
def hours(shared_rows: None) -> None:  # noqa: ARG001  must come first
    """Create slots, fetches and e-mails of several hours."""
    with connection.cursor() as cursor:
        cursor.execute(ROWS, {"all": HOURS * 60 * EACH, "each": EACH})
        cursor.execute(
            "SELECT brin_summarize_new_values('weir_slot_by_start'), brin_summarize_new_values('weir_email_by_end')"
        )


@pytest.fixture(scope="module", params=["no statistics", "believed empty", "statistics"])
def minute(hours: None, request: pytest.FixtureRequest) -> datetime:  # noqa: ARG001  must come first
    """Return a minute in the midst of the hours, which PostgreSQL knows this about."""
    with connection.cursor() as cursor:
        for table in TABLES:
            cursor.execute("DELETE FROM pg_statistic WHERE starelid = %s::regclass", [table])
            if request.param == "believed empty":
                believe_empty(table)
            elif request.param == "statistics":
                cursor.execute(f"ANALYZE {table}")
    return database_now().replace(second=0, microsecond=0) - timedelta(hours=1)


def parameters(minute: datetime) -> dict[str, Any]:
    return {
        "minute": minute, "epoch": 0, "is_whole": True, "bounds": list(LATENESS_MS), "most_sites": MOST_SITES
    }  # fmt: skip


def test_a_minute_is_found_by_indexes(minute: datetime) -> None:
    """No table is read from end to end, and of slots and e-mails only the block ranges of the minute."""
    text = statement("weir.workers.history", "rollup").text
    with transaction.atomic():
        planner.by_indexes()
        nodes = plan_of("weir.workers.history", "rollup", parameters(minute))
        read = {table: rows_read_by(text, table, parameters=parameters(minute)) for table in TABLES}
        transaction.set_rollback(True)

    assert [node["Relation Name"] for node in nodes if node["Node Type"] == "Seq Scan"] == []
    indexes = {node["Index Name"] for node in nodes if "Index Name" in node}
    assert {"weir_slot_by_start", "weir_fetch_finished", "weir_email_by_end", "weir_ratelimit_site_pkey"} <= indexes
    assert read["weir_fetches_fetch"] <= EACH
    assert read["weir_ratelimit_slot"] <= 2 * RANGE < HOURS * 60 * EACH / 2
    assert read["weir_mail_email"] <= 2 * RANGE
    assert read["weir_ratelimit_site"] <= EACH


def test_a_timeline_is_found_by_indexes(minute: datetime) -> None:
    """Of slots the block ranges of its period are read; of fetches, those that are held, and the newest that ended."""
    assert minute
    bounds = {"site": 1, "most": 20, "looked_at": 1_000, "forever": database_now()}
    queries: dict[str, dict[str, Any]] = {
        "timeline": {"site": 1, "past": 60.0, "ahead": 3.0, "hold": 60.0, "most": 2_000},
        "newest_ended": {"site": 1, "past": 60.0, "newest": 100},
        "next_starts": bounds,
    }
    package = "weir.workers.fetches"
    for name, values in queries.items():
        text = statement(package, name).text
        with transaction.atomic():
            planner.by_indexes()
            nodes = plan_of(package, name, values)
            read = {table: rows_read_by(text, table, parameters=values) for table in TABLES}
            transaction.set_rollback(True)
        assert [node["Relation Name"] for node in nodes if node["Node Type"] == "Seq Scan"] == []
        assert read["weir_ratelimit_slot"] <= 2 * RANGE
        assert read["weir_fetches_fetch"] <= 100
        assert read["weir_ratelimit_site"] <= 1
