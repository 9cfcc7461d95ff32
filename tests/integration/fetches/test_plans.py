"""The statements that every fetch passes through look rows up by index, also where no statistics were gathered yet.

A new installation has none, and the planner's guesses without them once made storing read all slots for each
outcome: the fetchers crawled until autovacuum had run.
"""

import math
from typing import Any

import pytest
from django.db import connection

from ratelimit import site_settings
from ratelimit.models import Site, Slot
from ratelimit.pacing import Confirmation
from tests.integration.conftest import database_now
from tests.integration.plans import plan_of, rows_read, scanned
from workers.fetches.dispatch import dispatch
from workers.fetches.enqueue import request_fetches
from workers.fetches.fetcher import store as storing
from workers.fetches.fetcher.claim import claim
from workers.fetches.fetcher.outcomes import judge
from workers.fetches.jobs import Answer
from workers.fetches.models import Fetch, RobotsFile

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("messages")]

SITES, EACH, BATCH = 50, 200, 100


@pytest.fixture
def reserved(settings: Any, request: pytest.FixtureRequest) -> list[int]:
    """Have thousands of reserved fetches in tables without statistics; returns the slots of one message.

    With a true parameter the statistics were gathered when all were queued yet.
    """
    settings.WEIR_LOOKAHEAD = 60.0
    with connection.cursor() as cursor:
        for table in ("fetches_fetch", "fetches_fetchbody", "ratelimit_slot", "ratelimit_site"):
            cursor.execute(f"TRUNCATE {table} CASCADE")
            cursor.execute("DELETE FROM pg_statistic WHERE starelid = %s::regclass", [table])
    for site in range(SITES):
        site_settings.set_rate(f"h{site}.example", "10/s")
    request_fetches([f"https://h{site}.example/{page}" for page in range(EACH) for site in range(SITES)])
    if getattr(request, "param", False):
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE fetches_fetch, ratelimit_site")
    assert dispatch() == SITES * EACH
    return list(Slot.objects.order_by("pk").values_list("pk", flat=True)[:BATCH])


def read_whole(name: str, parameters: dict[str, object]) -> set[str]:
    """Return the tables (but that of the few sites) and indexes that are read from end to end for single rows."""
    return {
        node.get("Index Name") or node["Relation Name"]
        for node in plan_of("workers.fetches.fetcher", name, parameters)
        if (node["Node Type"] == "Seq Scan" and node["Relation Name"] != "ratelimit_site")
        or ("Index Name" in node and "Index Cond" not in node)
    }


either_way = pytest.mark.parametrize(
    "reserved", [False, True], ids=["no statistics", "statistics of the queue"], indirect=True
)


@either_way
def test_claiming_looks_rows_up(reserved: list[int]) -> None:
    assert not read_whole("claim", {"slots": reserved, "lease": 60.0, "retention": 1e6, "obey": True})


@either_way
def test_claiming_looks_at_few_rows(reserved: list[int]) -> None:
    parameters = {"slots": reserved, "lease": 60.0, "retention": 1e6, "obey": True}
    assert rows_read("workers.fetches.fetcher", "claim", parameters, "fetches_fetch", "ratelimit_slot") < 10 * BATCH


@pytest.mark.parametrize("due", [1, SITES])
@either_way
def test_dispatching_looks_at_few_rows(reserved: list[int], due: int) -> None:
    Fetch.objects.exclude(slot_id__in=reserved).update(state="queued", slot_id=None, lease_until=None)
    sites = list(Site.objects.order_by("pk").values_list("pk", flat=True)[:due])
    Site.objects.filter(pk__in=sites).update(next_start=database_now(), has_backlog=True)
    parameters: dict[str, object] = {
        "lookahead": 10.0,
        "refill": 10.0,
        "most": 2_000,
        "longest_run": 500,
        "after": 0,
        "sites": None,
    }
    parameters |= {"delivery": 2.0, "travel": 0.1, "apart": 0.0, "phases": 500, "confirmed_for": 0.5}
    assert rows_read("workers.fetches", "dispatch", parameters, "fetches_fetch") < 10 * 100 * due


@either_way
def test_taking_over_looks_rows_up(reserved: list[int]) -> None:
    assert not read_whole("take_over", {"slot": reserved[0], "obey": True})
    assert not read_whole("requeue", {"slots": reserved})


@either_way
def test_storing_looks_rows_up(reserved: list[int]) -> None:
    jobs = claim(reserved, Confirmation(asked_at=math.inf))
    assert len(jobs) == BATCH
    outcomes = [
        judge(
            Answer(job=job, status_code=200, headers=(), body=b"page", lateness_ms=1.0, elapsed_ms=1.0),
            max_body=100,
            chance=0.5,
        )
        for job in jobs
    ]
    columns: dict[str, object] = {name: [getattr(o, name) for o in outcomes] for name in storing.COLUMNS}
    parameters = {**columns, "hop_site": [None] * BATCH}
    assert not read_whole("store", parameters)
    assert rows_read("workers.fetches.fetcher", "store", parameters, "fetches_fetch", "ratelimit_slot") < 10 * BATCH


@pytest.mark.parametrize("name", ["deactivate", "reactivate", "find_overlooked"])
@pytest.mark.parametrize("few_sites", [False, True], ids=["no statistics", "few sites, with statistics"])
def test_a_look_at_sites_does_not_read_the_whole_queue(reserved: list[int], name: str, few_sites: bool) -> None:
    Fetch.objects.exclude(slot_id__in=reserved).update(state="queued", slot_id=None, lease_until=None)
    if few_sites:
        Fetch.objects.exclude(slot_id__in=reserved).update(site_id=Site.objects.order_by("pk")[0].pk)
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE fetches_fetch, ratelimit_site")
    sites = list(Site.objects.values_list("pk", flat=True))
    nodes = plan_of("workers.fetches", name, {"sites": sites, "after": 0, "most": SITES})
    looks = [node for node in nodes if node.get("Relation Name") == "fetches_fetch"]
    assert looks
    assert all("site_id" in node.get("Index Cond", "") for node in looks)


@pytest.fixture
def origins() -> dict[str, int]:
    """Have thousands of robots.txt files in a table without statistics; returns some origins, with their sites."""
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE fetches_robotsfile")
        cursor.execute("DELETE FROM pg_statistic WHERE starelid = 'fetches_robotsfile'::regclass")
    sites = list(Site.objects.values_list("pk", flat=True))
    now = database_now()
    RobotsFile.objects.bulk_create(
        RobotsFile(
            origin=f"https://h{n}.example", site_id=sites[n % SITES], state="allowed", refresh_at=now, expires_at=now
        )
        for n in range(SITES * EACH)
    )
    return {f"https://h{n}.example": sites[n % SITES] for n in range(BATCH)}


@pytest.mark.usefixtures("reserved")
def test_a_look_at_robots_files_scans_no_table(origins: dict[str, int]) -> None:
    had: list[object] = [None] * BATCH
    assert not scanned("workers.fetches.robots", "known", {"origins": list(origins), "fetched_at": had})


@pytest.mark.usefixtures("reserved")
def test_asking_for_robots_files_scans_neither_them_nor_the_queue(origins: dict[str, int]) -> None:
    parameters = {
        "origins": list(origins),
        "urls": [f"{origin}/robots.txt" for origin in origins],
        "sites": list(origins.values()),
        "obey": True,
        "priority": 0,
        "max_attempts": 3,
        "ahead": 60.0,
        "most": 100,
    }
    assert scanned("workers.fetches.robots", "ask", parameters) <= {"ratelimit_site"}, (
        "which is as small as a page here"
    )


@pytest.mark.usefixtures("reserved")
def test_noting_robots_files_does_not_scan_them(origins: dict[str, int]) -> None:
    few = 10  # that end within a tenth of a second
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
    assert scanned("workers.fetches.robots", "note", parameters) <= {"ratelimit_site"}, (
        "which is as small as a page here"
    )


@pytest.mark.usefixtures("reserved")
def test_waking_fetches_that_wait_for_a_robots_file_scans_neither_them_nor_the_files(origins: dict[str, int]) -> None:
    Fetch.objects.filter(pk__in=Fetch.objects.values("pk")[:BATCH]).update(
        state="queued", slot_id=None, lease_until=None, due_since=database_now()
    )
    assert not scanned("workers.fetches.robots", "wake", {"origins": list(origins), "sites": list(origins.values())})


@pytest.mark.usefixtures("reserved")
def test_a_look_at_crawl_delays_scans_no_robots_file(origins: dict[str, int]) -> None:
    parameters = {"sites": list(origins.values()), "obey": True}
    assert scanned("workers.fetches.robots", "crawl_delays", parameters) <= {"ratelimit_site"}, (
        "which is as small as a page here"
    )
