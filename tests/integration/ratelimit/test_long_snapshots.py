"""Frequent statements find a site's row quickly while a snapshot is open, however often the row was replaced.

Each reservation leaves an old version of the row, and vacuum may not remove it while an older snapshot is open. A
look-up that passed all old versions once made a site of 100/s 13 times slower within ten minutes.
"""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import psycopg
import pytest
from django.db import connection, transaction
from django.db.models.functions import Now

from project.checkout import CHECKOUT
from tests.conftest import ROOMS
from tests.integration.conftest import Eventually, InThreads, WaitersOf, claim, database_now
from tests.integration.ratelimit.conftest import DAY, SITE, site_at, take, wait_s
from weir.postgres import planner, statements
from weir.postgres.statements import Statement
from weir.ratelimit import admission, slots
from weir.ratelimit.held import elsewhere
from weir.ratelimit.models import Site, Slot
from weir.ratelimit.sites import known_sites
from weir.ratelimit.slots import Reservation
from weir.workers.fetches.dispatch import dispatch
from weir.workers.fetches.enqueue import request_fetches
from weir.workers.fetches.models import Fetch, RobotsFile
from weir.workers.fetches.robots import files
from weir.workers.history.rollup import ROLLUP
from weir.workers.throttled.models import PostponedTask
from weir.workers.throttled.publishing import PUBLISH, WAITING_SITES

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("messages")]

Call = Callable[[], object]

OTHERS, VERSIONS = 1_000, 2_000
# By ctid, so that no statement passes the old versions. Those that a transaction makes and replaces, no snapshot keeps.
REPLACE = f"""
    DO $$
    DECLARE place tid;
    BEGIN
        SELECT ctid INTO place FROM weir_ratelimit_site WHERE name = '{SITE}';
        FOR number IN 1..{VERSIONS} LOOP
            UPDATE weir_ratelimit_site SET has_strays = has_strays WHERE ctid = place RETURNING ctid INTO place;
            COMMIT;
        END LOOP;
    END $$
"""
FEW = 40  # blocks: the versions are in more than fifty
URL = f"https://{SITE}/"


def blocks_read_by(call: Call) -> int:
    """Return how many blocks of the table of sites the call reads; a block counts each time that it is read.

    What an idle connection of an earlier test has read may be among them: PostgreSQL counts it up to 10 s later.
    """
    before = _blocks_read()
    call()
    return _blocks_read() - before


def least_read_by(prepare: Callable[[], Call]) -> int:
    """Return how many blocks the prepared call reads; one that seems to read many is prepared and called again."""
    blocks = blocks_read_by(prepare())
    return blocks if blocks <= FEW else min(blocks, blocks_read_by(prepare()))


def _blocks_read() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_force_next_flush()")
        cursor.execute(
            "SELECT heap_blks_read + heap_blks_hit FROM pg_statio_user_tables WHERE relname = 'weir_ratelimit_site'"
        )
        return int(cursor.fetchone()[0])


def given_back() -> list[int]:
    """Make a slot that was given back; returns its id."""
    [slot] = take().slots
    assert slots.release(slot.id) == 1
    return [slot.id]


def taking_given_back() -> Call:
    given_back()
    return lambda: slots.reserve(SITE, max_wait=DAY)


def confirming() -> Call:
    return partial(slots.confirm, take())


def using() -> Call:
    return partial(elsewhere.use, [take().slots[0].id])


def handing_back() -> Call:
    return partial(slots.hand_back, [take().slots[0].id], 0.0)


def unreserving() -> Call:
    return partial(slots.unreserve, given_back())


def requesting() -> Call:
    Site.objects.filter(name=SITE).update(has_backlog=True, due_at=None)  # as a busy site is
    return partial(request_fetches, [URL])


def claiming() -> Call:
    request_fetches([URL])
    Site.objects.filter(name=SITE).update(next_start=database_now())
    assert dispatch([Site.objects.get(name=SITE).pk])
    return partial(claim, list(Fetch.objects.filter(state="reserved").values_list("pk", flat=True)))


def asking_what_robots_txt_says() -> Call:
    RobotsFile.objects.update_or_create(
        origin=URL[:-1],
        defaults={
            "site": Site.objects.get(name=SITE),
            "state": "allowed",
            "refresh_at": Now(),
            "expires_at": Now() + timedelta(days=1),
        },
    )
    return partial(files.KNOWN_ROBOTS, origins=[URL[:-1]], fetched_at=[None], most=1)


def asking_for_robots_txt() -> Call:
    return partial(files.ask, {URL[:-1]: Site.objects.get(name=SITE).pk}, is_needed_now=True)


def publishing() -> Call:
    PostponedTask.objects.create(site=SITE, task="task", signature="{}", max_wait=DAY)
    times = {"lookahead": 2.6, "beside_fetches": 0.5, "added_grace": 0.0, "delivery": 30.0}
    return partial(PUBLISH, sites=[SITE], most=200, batch=500, **times)


def finding_where_tasks_wait() -> Call:
    PostponedTask.objects.create(site=SITE, task="task", signature="{}", max_wait=DAY)
    return partial(WAITING_SITES, first="", most=10)


def rolling_up() -> Call:
    take()
    minute = Slot.objects.order_by("pk")[0].start_time.replace(second=0, microsecond=0)
    parameters = {"minute": minute, "epoch": 0, "is_whole": True, "bounds": [1.0], "most_sites": 10}

    def roll_up() -> None:
        with transaction.atomic():
            planner.by_indexes()
            ROLLUP(**parameters)

    return roll_up


PREPARED: dict[str, Callable[[], Call]] = {
    "reserve": lambda: partial(slots.reserve, SITE, max_wait=DAY),
    "take_given_back": taking_given_back,
    "estimate": lambda: partial(slots.estimate, SITE),
    "admit": lambda: partial(admission.admit, SITE, 30.0),
    "confirm": confirming,
    "use": using,
    "hand_back": handing_back,
    "unreserve": unreserving,
    "named_sites": lambda: partial(known_sites, {SITE}),
    "activate": requesting,
    "claim": claiming,
    "known_robots": asking_what_robots_txt_says,
    "ask_robots": asking_for_robots_txt,
    "publish": publishing,
    "waiting_sites": finding_where_tasks_wait,
    "rollup": rolling_up,
}


def test_each_statement_that_looks_for_the_newest_version_is_measured() -> None:
    """All but that of dispatch, which does so only at sites whose fetches in flight are limited."""
    sources = (file for room in ROOMS for file in (CHECKOUT / room).rglob("*.sql"))
    assert {file.stem for file in sources if "newest version" in file.read_text()} - {"dispatch"} == {*PREPARED}


STATISTICS = {
    "fresh": "VACUUM ANALYZE weir_ratelimit_site",
    "none": "DELETE FROM pg_statistic WHERE starelid = 'weir_ratelimit_site'::regclass",
    # As VACUUM leaves it when it has skipped most pages.
    "wrong": "UPDATE pg_class SET reltuples = 30 WHERE oid = 'weir_ratelimit_site'::regclass",
}


@pytest.mark.parametrize("statistics", STATISTICS)
def test_no_look_up_passes_the_old_versions(other_connection: psycopg.Connection[Any], statistics: str) -> None:
    """It reads a few blocks of the table, whatever else it does, and whatever the statistics say."""
    site_at("100/s")
    with connection.cursor() as cursor:
        cursor.execute(
            'INSERT INTO weir_ratelimit_site (name, "interval", burst, has_backlog, covers_subdomains)'
            " SELECT n || '.example', '1 s', 1, false, false FROM generate_series(1, %s) AS n",
            [OTHERS],
        )
        other_connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        other_connection.execute("SELECT count(*) FROM weir_ratelimit_site")
        cursor.execute(REPLACE)
        cursor.execute(STATISTICS[statistics])
    assert blocks_read_by(lambda: Site.objects.get(name=SITE)) > FEW, "a plain look-up passes them"
    read = {statement: least_read_by(prepare) for statement, prepare in PREPARED.items()}
    print(read)
    assert [statement for statement, blocks in read.items() if blocks > FEW] == []


def test_a_reservation_that_waited_for_the_lock_finds_the_row(
    other_connection: psycopg.Connection[Any],
    waiters: WaitersOf,
    eventually: Eventually,
    in_threads: InThreads,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By one statement, although this statement does not see the version that is locked."""
    site_at("1/s")
    take()
    execute, ran = statements.execute, list[str]()

    def noted(statement: Statement[Any], *how: Any) -> Any:
        ran.append(statement.name)
        return execute(statement, *how)

    monkeypatch.setattr(statements, "execute", noted)
    other_connection.execute("UPDATE weir_ratelimit_site SET next_start = clock_timestamp() + interval '9 s'")

    def reserve(number: int) -> Reservation | None:
        if number == 0:
            return take()
        eventually(lambda: waiters(other_connection) == 1, "the reservation to wait for the lock")
        other_connection.commit()
        return None

    reservation, _ = in_threads(2, reserve)
    assert wait_s(reservation) > 5
    assert "estimate" not in ran, "it looked again why nothing was reserved"
