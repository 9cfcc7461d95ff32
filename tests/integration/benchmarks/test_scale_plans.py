"""What runs again and again reads what concerns it, however much else is stored, once statistics were gathered.

Each of these statements once had a plan that read a whole table: all fetches for the lost ones among those that are
held, all bodies for each batch that is purged. (Without statistics, as in a new installation: test_plans.py.)
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from tests.integration.plans import plan_of
from weir.postgres import statements
from weir.postgres.statements import Statement
from weir.ratelimit.models import LONG_AGO
from weir.workers.fetches.dispatch import dispatch
from weir.workers.fetches.reports.site_list import QUEUE_PIECE

pytestmark = pytest.mark.django_db

SITES, FETCHES = 2_000, 40_000
TABLES = "weir_fetches_fetch, weir_fetches_fetchbody, weir_ratelimit_slot, weir_ratelimit_site"
# Of ten fetches one is held, seven are queued (six of them for tomorrow), two have ended in the last 60 days.
# One site in ten is on.
FILL = f"""
    TRUNCATE {TABLES} CASCADE;
    INSERT INTO weir_ratelimit_site (id, name, "interval", burst, has_backlog, covers_subdomains)
    SELECT n, 'site-' || n || '.example', interval '1 s', 1, n % 10 = 0, false FROM generate_series(1, {SITES}) AS n;
    INSERT INTO weir_fetches_fetch (
        url, hop_url, redirects, site_id, priority, attempts, max_attempts, headers, etag, last_modified, error,
        on_done, slot_id, lease_until, status_code, state, not_before, finished_at
    )
    SELECT
        'https://site.example/' || n, '', 0, 10 + n % {SITES // 10} * 10, n % 3, 0, 5, '[]', '', '', '', '',
        n, now() + interval '1 hour', 200,
        CASE WHEN place = 0 THEN 'reserved' WHEN place < 8 THEN 'queued' ELSE 'done' END,
        now() + CASE WHEN place BETWEEN 1 AND 6 THEN interval '1 day' ELSE interval '0' END,
        CASE WHEN place >= 8 THEN now() - random() * interval '60 days' END
    FROM generate_series(1, {FETCHES}) AS n, mod(n, 10) AS place;
    INSERT INTO weir_fetches_fetchbody SELECT id, 'page' FROM weir_fetches_fetch WHERE state = 'done';
    INSERT INTO weir_ratelimit_slot (site_id, start_time, use_until, "interval", run_size, reserved_at)
    SELECT n % {SITES} + 1, at, at, interval '1 s', 1, at
    FROM generate_series(1, {FETCHES}) AS n CROSS JOIN LATERAL (VALUES (now() - n * interval '0.2 s')) AS start(at);
"""


def fill() -> None:
    """Fill the tables so that what is looked for is the smaller part."""
    with connection.cursor() as cursor:
        cursor.execute(FILL)
        cursor.execute(f"VACUUM ANALYZE {TABLES}")


@pytest.fixture(scope="module")
def _filled(shared_rows: None) -> None:  # noqa: ARG001  must come first
    fill()


def reads(room: str, name: str, parameters: dict[str, object]) -> list[dict[str, Any]]:
    """Return the nodes of the plan that read a table."""
    return [node for node in plan_of(room, name, parameters) if "Relation Name" in node and "Scan" in node["Node Type"]]


def condition_on(index: str, nodes: list[dict[str, Any]]) -> str:
    """Return what is looked up in the index, which is read once."""
    [node] = [node for node in nodes if node.get("Index Name") == index]
    return str(node.get("Index Cond", ""))


@pytest.mark.usefixtures("_filled")
def test_lost_fetches_are_looked_for_among_those_held_only() -> None:
    nodes = plan_of("weir.workers.fetches", "lost", {"most": 100})
    of_held = {"weir_fetch_held", "weir_fetch_of_slot"}  # indexes that hold nothing else
    assert {node["Index Name"] for node in nodes if "Index Name" in node} <= of_held
    assert "Seq Scan" not in {node["Node Type"] for node in nodes}


@pytest.mark.usefixtures("_filled")
def test_the_list_of_sites_reads_no_fetch_that_has_ended() -> None:
    nodes = reads("weir.workers.fetches", "backlogs", {"after": 0, "until": 2**63 - 1, "most": QUEUE_PIECE})
    of_fetches = [node for node in nodes if node["Relation Name"] == "weir_fetches_fetch"]
    assert [(node["Node Type"], node["Index Name"]) for node in of_fetches] == [("Index Only Scan", "weir_fetch_queue")]


@pytest.mark.usefixtures("_filled")
def test_the_forecast_of_a_long_queue_reads_none_of_its_rows() -> None:
    """It counts them in the index. The few robots.txt files among them are found by an index of their own."""
    parameters = {
        "site": 10,
        "name": "site-10.example",
        "interval": timedelta(seconds=1),
        "written_rate": "1/s",
        "long_ago": LONG_AGO,
        "starts_within": 0.0,
        "clears_within": 0.0,
        "obey": True,
        "origins": ["http://site-10.example"],
        "robots_urls": ["http://site-10.example/robots.txt"],
    }
    nodes = reads("weir.workers.fetches", "forecast", parameters)
    by = {
        (node.get("Index Name"), node["Node Type"]) for node in nodes if node["Relation Name"] == "weir_fetches_fetch"
    }
    assert ("weir_fetch_queue", "Index Only Scan") in by
    assert "weir_fetch_robots_once" in {index for index, _ in by}


@pytest.mark.usefixtures("_filled")
def test_old_fetches_and_their_bodies_are_found_by_indexes() -> None:
    nodes = reads("weir.workers.fetches", "purge_fetches", {"older_than": 30 * 86_400.0, "batch": 1_000})
    assert all("Index Name" in node for node in nodes)
    assert "finished_at <" in condition_on("weir_fetch_finished", nodes)


@pytest.mark.usefixtures("_filled")
def test_old_slots_are_found_by_their_ids() -> None:
    nodes = reads("weir.ratelimit", "purge_slots", {"older_than": 3_600.0, "batch": 1_000, "after": 0})
    assert {node["Index Name"] for node in nodes} == {"weir_ratelimit_slot_pkey"}


@pytest.fixture
def dispatched(
    transactional_db: None,  # noqa: ARG001  must come first
    messages: list[Any],  # noqa: ARG001  no broker
    monkeypatch: pytest.MonkeyPatch,
) -> dict[str, object]:
    """Fill the tables, and return what dispatch asks for. Nothing is due: it finds nothing."""
    fill()
    used: list[Mapping[str, object]] = []
    execute = statements.execute

    def noted(statement: Statement[Any], parameters: Mapping[str, object], *database: Any) -> list[Any]:
        if statement.name == "dispatch":
            used.append(parameters)
        return execute(statement, parameters, *database)

    with connection.cursor() as cursor:
        cursor.execute("UPDATE weir_ratelimit_site SET next_start = now() + interval '1 hour'")
    with monkeypatch.context() as noting:
        noting.setattr(statements, "execute", noted)
        dispatch()
    return dict(used[0])


def test_dispatch_reads_the_sites_that_are_on_and_of_their_queues_what_is_due(dispatched: dict[str, object]) -> None:
    nodes = reads("weir.workers.fetches", "dispatch", dispatched)
    assert condition_on("weir_site_with_backlog", nodes)
    [due] = [node["Index Cond"] for node in nodes if "not_before" in node.get("Index Cond", "")]
    assert "site_id =" in due
    assert "priority =" in due, "what is for later lies between the priorities"


def test_dispatch_reads_no_more_where_one_queue_is_long(dispatched: dict[str, object]) -> None:
    with connection.cursor() as cursor:
        cursor.execute("UPDATE weir_fetches_fetch SET site_id = 10 WHERE state = 'queued'")
        cursor.execute("UPDATE weir_ratelimit_site SET has_backlog = id = 10")
        cursor.execute(f"VACUUM ANALYZE {TABLES}")
    nodes = reads("weir.workers.fetches", "dispatch", dispatched)
    of_fetches = [node for node in nodes if node["Relation Name"] == "weir_fetches_fetch"]
    assert "Seq Scan" not in {node["Node Type"] for node in of_fetches}
