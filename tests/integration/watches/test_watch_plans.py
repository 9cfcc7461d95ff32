"""The statements of the tick find their rows by indexes, whatever PostgreSQL's statistics say."""

from typing import Any
from uuid import UUID

import pytest
from django.db import connection

from tests.integration.plans import plan_of, scanned
from weir.workers import task_names
from weir.workers.watches.apps import KEEP_WATCH_HAS_WORK

pytestmark = pytest.mark.django_db

WATCHES, FETCHES = "weir.workers.watches", "weir.workers.fetches"
FILL = """
    INSERT INTO weir_watches_watch (
        key, dedupe_key, url, host, priority, revalidate, every, jitter, period, tell_first, on_change, next_at
    )
    SELECT url, md5(url)::uuid, url, 'a.example', 0, true, '1 h', 0, '1 h', false, '', now() + n * interval '1 s'
    FROM generate_series(1, 5000) AS n CROSS JOIN LATERAL (SELECT 'https://a.example/' || n AS url) AS page;
    INSERT INTO weir_fetches_fetch (
        url, hop_url, state, priority, max_attempts, status_code, finished_at, on_done, on_done_called_at, dedupe_key,
        site_id
    )
    SELECT url, url, 'done', 0, 5, 200, now(), 'weir.watches.keep_watch', now(), dedupe_key, 1 FROM weir_watches_watch;
"""
IDS = list(range(1, 101))
TASK: dict[str, Any] = {"on_done": task_names.KEEP_WATCH}
STATEMENTS: dict[tuple[str, str], dict[str, Any]] = {
    (WATCHES, "keep_watch_has_work"): TASK,
    (WATCHES, "due"): {"batch": 1_000},
    (WATCHES, "put_off"): {"watches": IDS, "fetches": IDS},
    (WATCHES, "judge"): {"fetches": IDS, "most": 50},
    (FETCHES, "take_watched"): TASK | {"look": 500},
    (FETCHES, "settle_watched"): {"fetches": IDS, "tasks": ["" for _ in IDS]},
}


@pytest.mark.parametrize("analyzed", [False, True])
def test_no_table_is_read_as_a_whole(*, analyzed: bool) -> None:
    """Nor a partial index that has an entry for each watch, for a single row."""
    with connection.cursor() as cursor:
        cursor.execute(FILL)
        if analyzed:
            cursor.execute("ANALYZE weir_watches_watch, weir_fetches_fetch")
    for (room, name), parameters in STATEMENTS.items():
        tables = {"weir_watches_watch", "weir_fetches_fetch", "weir_fetches_fetchbody"}
        assert (name, scanned(room, name, parameters) & tables) == (name, set())
    inner = [node.get("Index Name") for node in plan_of(FETCHES, "take_watched", TASK | {"look": 500})]
    assert inner.count("weir_fetch_to_be_judged") == 1  # the ends; each is then looked up by its id
    assert "weir_fetch_on_done_due" not in inner
    asked = [node.get("Index Name") for node in plan_of(WATCHES, "keep_watch_has_work", TASK)]
    assert "weir_fetch_to_be_judged" in asked  # however many calls of other tasks were not made
    assert not KEEP_WATCH_HAS_WORK.prepare, "the plan of a prepared statement is for any task"


def test_a_conflict_is_found_by_the_index_of_unfinished_fetches() -> None:
    one = {"urls": ["u"], "hop_urls": ["u"], "sites": [1], "errors": [""], "dedupe_keys": [UUID(int=1)]}
    more = {"priorities": [0], "revalidates": [True], "headers": [None], "shares": ["a"], "max_attempts": 5}
    [insert] = [node for node in plan_of(FETCHES, "enqueue_each", one | more | TASK) if "Operation" in node]
    assert insert["Conflict Arbiter Indexes"] == ["weir_fetch_unfinished_once"]
