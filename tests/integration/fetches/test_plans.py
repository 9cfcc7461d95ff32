"""The statements that every fetch passes through look rows up by index, even if no statistics were gathered yet.

A new installation has none, and the planner's guesses without them once made storing read all slots for each
outcome: the fetchers crawled until autovacuum had run.
"""

import math
from datetime import timedelta
from itertools import cycle
from uuid import UUID

import pytest
from django.db import connection
from django.db.models.functions import Now
from django.test import override_settings

from project.celery import app
from tests.integration.conftest import database_now
from tests.integration.fetching import queue_pages
from tests.integration.plans import generic_plan_of, plan_of, rows_read, scanned
from weir.ratelimit import site_settings
from weir.ratelimit.models import Site, Slot
from weir.ratelimit.pacing import Confirmation
from weir.workers.fetches.dispatch import dispatch
from weir.workers.fetches.fetcher.claim import claim
from weir.workers.fetches.fetcher.results import store as storing
from weir.workers.fetches.fetcher.results.bodies import columns_of_bodies
from weir.workers.fetches.fetcher.results.outcomes import judge
from weir.workers.fetches.jobs import Answer
from weir.workers.fetches.models import BodyKeeping, Fetch, KeptBody

pytestmark = pytest.mark.usefixtures("messages")

SITES, EACH, BATCH = 50, 200, 100
NO_STATISTICS, QUEUE_ANALYZED = "no statistics", "statistics of the queue"
QUEUED, QUEUED_AT_ONE_SITE = "queued, no statistics", "queued at one site, with statistics"
QUEUED_SINCE = "queued since statistics were gathered"


def reserve(*, analyzed: bool) -> list[int]:
    """Make thousands of reserved fetches in tables without statistics; returns the slots of one message.

    With `analyzed` the statistics were gathered while all were still queued.
    """
    with connection.cursor() as cursor:
        for table in ("weir_fetches_fetch", "weir_fetches_fetchbody", "weir_ratelimit_slot", "weir_ratelimit_site"):
            cursor.execute(f"TRUNCATE {table} CASCADE")
            cursor.execute("DELETE FROM pg_statistic WHERE starelid = %s::regclass", [table])
    for site in range(SITES):
        site_settings.set_rate(f"h{site}.example", "10/s")
    queue_pages(EACH)
    if analyzed:
        analyze()
    with override_settings(WEIR_LOOKAHEAD=60.0):
        assert dispatch() == SITES * EACH
    return list(Slot.objects.order_by("pk").values_list("pk", flat=True)[:BATCH])


def queue_again(slots: list[int], kind: str) -> None:
    """Queue all fetches but those of the message, almost all at one site if the kind says so.

    The statistics know that, or are older and know that nothing is queued, as after a night.
    """
    fetches = Fetch.objects.exclude(slot_id__in=slots)
    if kind == QUEUED_SINCE:
        fetches.update(state="cancelled", slot_id=None, lease_until=None, finished_at=Now())
        analyze()
    fetches.update(state="queued", slot_id=None, lease_until=None, finished_at=None)
    if kind == QUEUED_AT_ONE_SITE:
        fetches.update(site_id=Site.objects.order_by("pk")[0].pk)
        analyze()


def analyze() -> None:
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE weir_fetches_fetch, weir_ratelimit_site")


@pytest.fixture
def own_reserved(transactional_db: None, messages: object, request: pytest.FixtureRequest) -> list[int]:  # noqa: ARG001
    """Return the slots of a message, for a test that changes most rows or commits."""
    return reserve(analyzed=request.param == QUEUE_ANALYZED)


@pytest.fixture(scope="module")
def reserved(shared_rows: None, request: pytest.FixtureRequest) -> list[int]:  # noqa: ARG001  must come first
    """Return the slots of a message, for tests that share the rows and change few of them."""
    kind = getattr(request, "param", NO_STATISTICS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(app, "send_task", lambda *_arguments, **_options: None)
        slots = reserve(analyzed=kind == QUEUE_ANALYZED)
    if kind in {QUEUED, QUEUED_AT_ONE_SITE, QUEUED_SINCE}:
        queue_again(slots, kind)
    return slots


def read_whole(name: str, parameters: dict[str, object]) -> set[str]:
    """Return the tables (but that of the few sites) and indexes that are read from end to end for single rows."""
    return {
        node.get("Index Name") or node["Relation Name"]
        for node in plan_of("weir.workers.fetches", name, parameters)
        if (node["Node Type"] == "Seq Scan" and node["Relation Name"] != "weir_ratelimit_site")
        or ("Index Name" in node and "Index Cond" not in node)
    }


def either_way(fixture: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(fixture, [NO_STATISTICS, QUEUE_ANALYZED], indirect=True)


@pytest.mark.django_db
@either_way("reserved")
def test_what_fetchers_have_in_hand_is_read_by_indexes(reserved: list[int]) -> None:
    assert reserved
    parameters: dict[str, object] = {"delivery": 2.0, "horizon": 60.0}
    assert not scanned("weir.workers.fetches", "in_hand", parameters)
    Fetch.objects.exclude(slot_id__in=reserved).update(
        state="done", finished_at=Now() - timedelta(hours=1), status_code=200
    )
    assert rows_read("weir.workers.fetches", "in_hand", parameters, "weir_fetches_fetch") <= len(reserved)
    parameters = {"lately": 2.0, "most": 500}
    assert rows_read("weir.workers.fetches", "used_lately", parameters, "weir_ratelimit_slot") <= 500


@pytest.mark.django_db
@either_way("reserved")
def test_claiming_looks_rows_up(reserved: list[int]) -> None:
    assert not read_whole(
        "claim",
        {"slots": reserved, "lease": 60.0, "retention": 1e6, "obey": True, "process": 1, "added_grace": 0.0},
    )


@pytest.mark.django_db
@either_way("reserved")
def test_claiming_looks_at_few_rows(reserved: list[int]) -> None:
    parameters = {"slots": reserved, "lease": 60.0, "retention": 1e6, "obey": True, "process": 1, "added_grace": 0.0}
    assert (
        rows_read("weir.workers.fetches", "claim", parameters, "weir_fetches_fetch", "weir_ratelimit_slot") < 10 * BATCH
    )


@pytest.mark.parametrize("own_reserved", [NO_STATISTICS, QUEUE_ANALYZED, QUEUED_SINCE], indirect=True)
def test_dispatching_looks_at_few_rows(own_reserved: list[int], request: pytest.FixtureRequest) -> None:
    queue_again(own_reserved, request.node.callspec.params["own_reserved"])
    parameters: dict[str, object] = {
        "lookahead": 10.0,
        "refill": 10.0,
        "most": 2_000,
        "longest_run": 500,
        "most_slots": 2**31 - 1,
        "fewest": 4,
        "after": 0,
        "sites": None,
    }
    parameters |= {
        "delivery": 2.0,
        "travel": 0.1,
        "apart": 0.0,
        "phases": 500,
        "confirmed_for": 0.5,
        "added_grace": 0.0,
    }
    for due in (1, SITES):
        sites = list(Site.objects.order_by("pk").values_list("pk", flat=True)[:due])
        Site.objects.filter(pk__in=sites).update(next_start=database_now(), has_backlog=True)
        assert rows_read("weir.workers.fetches", "dispatch", parameters, "weir_fetches_fetch") < 10 * 100 * due, due


@pytest.mark.django_db
@either_way("reserved")
def test_taking_over_looks_rows_up(reserved: list[int]) -> None:
    assert not read_whole("successors", {"slots": reserved, "obey": True})
    assert not read_whole("requeue", {"slots": reserved})


@either_way("own_reserved")
def test_storing_looks_rows_up(own_reserved: list[int]) -> None:
    jobs = claim(own_reserved, Confirmation(asked_at=math.inf))
    assert len(jobs) == BATCH
    KeptBody.objects.bulk_create(KeptBody(sha256=b"%032d" % number, content=b"", size=0) for number in range(3_000))
    outcomes = [
        judge(
            Answer(job=job, status_code=200, headers=(), body=b"page" * length, lateness_ms=1.0, elapsed_ms=1.0),
            max_body=10_000,
            chance=0.5,
        )
        for job, length in zip(jobs, cycle([1, *range(2_000, 2_010)]), strict=False)
    ]
    columns: dict[str, object] = {name: [getattr(o, name) for o in outcomes] for name in storing.COLUMNS}
    BodyKeeping.objects.create(turned_at=database_now())  # bodies are kept once
    parameters = {**columns, **columns_of_bodies(outcomes), "keeping": 300.0, "hop_site": [None] * BATCH}
    assert read_whole("store", parameters) <= {"weir_fetches_bodykeeping"}  # which has one row
    assert (
        rows_read("weir.workers.fetches", "store", parameters, "weir_fetches_fetch", "weir_ratelimit_slot") < 10 * BATCH
    )


@pytest.mark.parametrize("name", ["deactivate", "activate"])
@pytest.mark.parametrize("reserved", [QUEUED, QUEUED_AT_ONE_SITE, QUEUED_SINCE], indirect=True)
@pytest.mark.django_db
@pytest.mark.usefixtures("reserved")
def test_a_look_at_sites_does_not_read_the_whole_queue(name: str) -> None:
    sites = list(Site.objects.values_list("pk", flat=True))
    parameters: dict[str, object] = {"sites": sites, "after": 0, "most": SITES}
    nodes = plan_of("weir.workers.fetches", name, parameters)
    looks = [node for node in nodes if node.get("Relation Name") == "weir_fetches_fetch"]
    assert looks
    assert all("site_id" in node.get("Index Cond", "") for node in looks)
    assert rows_read("weir.workers.fetches", name, parameters, "weir_fetches_fetch") <= 2 * SITES


@pytest.mark.parametrize("name", ["deactivate", "activate", "dispatch"])
@pytest.mark.parametrize("reserved", [QUEUED_SINCE], indirect=True)
@pytest.mark.django_db
@pytest.mark.usefixtures("reserved")
def test_no_index_of_queued_fetches_can_stand_in_for_the_queue(name: str) -> None:
    """If one could, PostgreSQL would read all of it for each site where it believes that nothing is queued."""
    with connection.cursor() as cursor:  # the test's transaction is rolled back
        cursor.execute("DROP INDEX weir_fetch_queue")
    plan = generic_plan_of("weir.workers.fetches", name)
    used = {node.get("Index Name") for node in plan if node.get("Relation Name") == "weir_fetches_fetch"}
    assert used
    assert "weir_fetch_newest_queued" not in used


@pytest.mark.parametrize("analyze", [False, True])
@pytest.mark.usefixtures("messages")
@pytest.mark.django_db(transaction=True)
def test_a_tick_reads_only_the_sites_at_which_something_has_become_due(*, analyze: bool) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            """
            INSERT INTO weir_ratelimit_site (name, "interval", burst, has_backlog, covers_subdomains, due_at)
            SELECT 'h' || n || '.example', interval '1 s', 1, false, false, now() + (n - 10) * interval '1 hour'
            FROM generate_series(0, 4999) AS n
            """
        )
        cursor.execute("DELETE FROM pg_statistic WHERE starelid = 'weir_ratelimit_site'::regclass")
        if analyze:
            cursor.execute("ANALYZE weir_ratelimit_site")
    due = 11
    # Each is read twice: where it is found, and where it is changed.
    assert rows_read("weir.workers.fetches", "activate_due", {"most": 2_000}, "weir_ratelimit_site") <= 2 * due


@pytest.fixture(scope="module")
def origins(reserved: list[int]) -> dict[str, int]:  # noqa: ARG001  must come first
    """Make thousands of robots.txt files in a table without statistics; returns some origins, with their sites."""
    sites = list(Site.objects.values_list("pk", flat=True))
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE weir_fetches_robotsfile")
        cursor.execute("DELETE FROM pg_statistic WHERE starelid = 'weir_fetches_robotsfile'::regclass")
        cursor.execute(
            """
            INSERT INTO weir_fetches_robotsfile (origin, site_id, state, rules, error, refresh_at, expires_at)
            SELECT 'https://h' || n || '.example', (%(sites)s::bigint[])[n %% %(count)s + 1],
                'allowed', '', '', now(), now()
            FROM generate_series(0, %(files)s - 1) AS n
            """,
            {"sites": sites, "count": SITES, "files": SITES * EACH},
        )
    return {f"https://h{n}.example": sites[n % SITES] for n in range(BATCH)}


@pytest.mark.django_db
def test_a_look_at_robots_files_scans_no_table(origins: dict[str, int]) -> None:
    had: list[object] = [None] * BATCH
    assert not scanned(
        "weir.workers.fetches", "known_robots", {"origins": list(origins), "fetched_at": had, "most": 2**21}
    )


@pytest.mark.django_db
def test_asking_for_robots_files_scans_neither_them_nor_the_queue(origins: dict[str, int]) -> None:
    parameters = {
        "origins": list(origins),
        "urls": [f"{origin}/robots.txt" for origin in origins],
        "sites": list(origins.values()),
        "correlation_ids": ["" for _ in origins],
        "obey": True,
        "priority": 0,
        "max_attempts": 3,
        "ahead": 60.0,
        "most": 100,
    }
    assert scanned("weir.workers.fetches", "ask_robots", parameters) <= {"weir_ratelimit_site"}, (
        "which is as small as a page here"
    )


@pytest.mark.django_db
def test_noting_robots_files_does_not_scan_them(origins: dict[str, int]) -> None:
    few = 10  # fetches that end within a tenth of a second
    parameters = {
        "origin": list(origins)[:few],
        "site_id": list(origins.values())[:few],
        "state": ["unreachable"] * few,
        "rules": [""] * few,
        "crawl_delay": [None] * few,
        "error": ["because"] * few,
        "lifetime": 1.0,
        "ahead": 1.0,
        "unreachable_for": 1.0,
    }
    assert scanned("weir.workers.fetches", "note_robots", parameters) <= {"weir_ratelimit_site"}, (
        "which is as small as a page here"
    )


@pytest.mark.django_db
def test_waking_fetches_that_wait_for_a_robots_file_or_a_token_scans_no_table(origins: dict[str, int]) -> None:
    Fetch.objects.filter(pk__in=Fetch.objects.values("pk")[:BATCH]).update(
        state="queued", slot_id=None, lease_until=None, due_since=database_now()
    )
    assert not scanned(
        "weir.workers.fetches", "wake_waiting_for_robots", {"origins": list(origins), "sites": list(origins.values())}
    )
    for_tokens = {"keys": [UUID(int=1)], "errors": ["waits for an access token of SHOP"]}
    assert not scanned("weir.workers.fetches", "wake_waiting_for_tokens", for_tokens)
    indexes = {
        node.get("Index Name") for node in plan_of("weir.workers.fetches", "wake_waiting_for_tokens", for_tokens)
    }
    assert "weir_fetch_waits_for_robots" in indexes


@pytest.mark.django_db
def test_a_look_at_crawl_delays_scans_no_robots_file(origins: dict[str, int]) -> None:
    parameters = {"sites": list(origins.values()), "obey": True}
    assert scanned("weir.workers.fetches", "crawl_delays", parameters) <= {"weir_ratelimit_site"}, (
        "which is as small as a page here"
    )


@pytest.mark.django_db
@pytest.mark.parametrize("reserved", [QUEUED, QUEUED_AT_ONE_SITE], indirect=True)
def test_ending_the_leases_of_a_lost_process_looks_at_held_fetches_only(reserved: list[int]) -> None:
    Fetch.objects.filter(slot_id__in=reserved).update(state="running", claimed_by=1)
    parameters: dict[str, object] = {"processes": [1]}
    assert rows_read("weir.workers.fetches", "expire_leases", parameters, "weir_fetches_fetch") < 10 * BATCH


@pytest.mark.parametrize("name", ["forecast", "next_starts", "why"])
@pytest.mark.django_db
def test_runs_are_looked_for_within_the_statement(name: str) -> None:
    """PostgreSQL plans as if the function's query stood there, and calls nothing."""
    plan = generic_plan_of("weir.workers.fetches", name)
    assert "weir_fetches_held_runs" not in str(plan)
    assert {"weir_fetch_held", "weir_ratelimit_slot_pkey"} <= {node.get("Index Name") for node in plan}
