"""A site's rate is kept exactly: by many processes together, behind a lock, and with a clock that is wrong.

The contrast stands beside it: the formula that is widely published for the same purpose, and what it does.
"""

import json
import os
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import psycopg
import pytest
from django.db import connection

from tests.integration.conftest import Eventually, InThreads, Process, StartPython, WaitersOf, database_now
from tests.waiting import in_time
from weir.ratelimit import clock, round_trips, site_settings, slots
from weir.ratelimit.models import Site, Slot

pytestmark = pytest.mark.django_db(transaction=True)

SITE = "site.example"
DAY = 86_400.0
PROCESSES = 8
EACH = 500 if "WEIR_FAULTS" in os.environ else 100  # starts

RESERVE = """
from weir.ratelimit import slots
site, count = sys.argv[1], int(sys.argv[2])
slots.estimate(site)
print("ready", flush=True)
sys.stdin.readline()
for _ in range(count):
    slots.reserve(site, max_wait=1e9)
print("done", flush=True)
"""

# The formula as it is widely published, each statement committed by itself under READ COMMITTED.
PUBLISHED = """
from django.db import connection
count = int(sys.argv[1])
with connection.cursor() as cursor:
    cursor.execute("SELECT 1")
    print("ready", flush=True)
    sys.stdin.readline()
    for _ in range(count):
        cursor.execute(
            "INSERT INTO published (start_time)"
            " SELECT greatest(now(), max(start_time) + interval '1 millisecond') FROM published"
        )
print("done", flush=True)
"""

RESERVE_ON_REQUEST = """
import json, time
from datetime import datetime
from weir.ratelimit import clock, slots
print(time.time(), datetime.now().timestamp(), flush=True)
for line in sys.stdin:
    reservation = slots.reserve(line.strip(), max_wait=1e9)
    slot, now = reservation.slots[0], clock.now()
    answer = {"id": slot.id, "wait_s": slot.start_at - now, "left_s": reservation.run.use_until - now}
    print(json.dumps(answer), flush=True)
"""


def read(process: Process) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def write(process: Process, line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{line}\n")
    process.stdin.flush()


def run_together(processes: list[Process]) -> float:
    """Let processes that are ready run at the same time, and return the seconds until the last is done."""
    assert [read(process) for process in processes] == ["ready"] * len(processes)
    began_at = clock.now()
    for process in processes:
        write(process, "go")
    assert [read(process) for process in processes] == ["done"] * len(processes)
    return clock.now() - began_at


def gaps(starts: list[datetime]) -> list[timedelta]:
    return [later - earlier for earlier, later in pairwise(sorted(starts))]


def starts() -> list[datetime]:
    """Return the planned starts; a process that was held up immediately gives back a slot that it could not use."""
    granted = Slot.objects.filter(released_at=None)
    return list(granted.order_by("start_time").values_list("start_time", flat=True))


def test_eight_processes_reserve_without_a_short_gap(start_python: StartPython) -> None:
    """8 processes reserve many starts at one site at the same time: no two are equal, or closer than the interval."""
    site_settings.set_rate(SITE, "1000/s")
    took_s = run_together([start_python(RESERVE, SITE, EACH) for _ in range(PROCESSES)])
    site, planned = Site.objects.get(), starts()
    short = sum(gap < site.interval for gap in gaps(planned))
    print(
        f"\nreservations: {len(planned)}, by {PROCESSES} processes, in {took_s:.1f} s ({len(planned) / took_s:.0f}/s); "
        f"duplicates: {len(planned) - len(set(planned))}, gaps below the interval: {short}, "
        f"shortest gap: {min(gaps(planned)) / site.interval:.2f} intervals"
    )
    assert len(planned) == len(set(planned)) == PROCESSES * EACH
    assert short == 0


@pytest.fixture
def published_table() -> Iterator[None]:
    """Create a table for the published formula."""
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE published (id bigserial PRIMARY KEY, start_time timestamptz NOT NULL)")
        cursor.execute("CREATE INDEX ON published (start_time)")
        cursor.execute("INSERT INTO published (start_time) VALUES (now())")
    yield
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE published")


@pytest.mark.usefixtures("published_table")
def test_the_published_formula_hands_out_starts_twice(start_python: StartPython) -> None:
    """The contrast: `max(start_time) + interval` in one statement gives several processes the same start."""
    took_s = run_together([start_python(PUBLISHED, 50) for _ in range(PROCESSES)])
    with connection.cursor() as cursor:
        cursor.execute("SELECT start_time FROM published ORDER BY start_time OFFSET 1")
        planned = [row[0] for row in cursor.fetchall()]
    short = sum(gap < timedelta(milliseconds=1) for gap in gaps(planned))
    print(
        f"\nthe published formula: {len(planned)}, by {PROCESSES} processes, in {took_s:.1f} s; "
        f"duplicates: {len(planned) - len(set(planned))}, gaps below the interval: {short}"
    )
    assert len(planned) == PROCESSES * 50
    assert short > 0


def test_reservations_that_queue_behind_a_lock_read_the_clock_after_it(
    in_threads: InThreads,
    other_connection: psycopg.Connection[Any],
    waiters: WaitersOf,
    eventually: Eventually,
) -> None:
    """300 reservations that wait for a transaction which holds the site keep their spacing, and none is in the past.

    If the clock were read before the lock is held, planned starts would be over when they are granted.
    """
    site_settings.set_rate(SITE, "1000/s")
    other_connection.execute("SELECT id FROM weir_ratelimit_site FOR UPDATE")

    def reserve(number: int) -> datetime | None:
        if number == 0:
            eventually(lambda: waiters(other_connection) == 50, "50 reservations to wait")
            released_at = database_now()
            other_connection.rollback()
            return released_at
        for _ in range(6):
            slots.reserve(SITE, max_wait=DAY)
        return None

    released_at = in_threads(51, reserve)[0]
    site, planned = Site.objects.get(), starts()
    assert len(planned) == 300
    assert min(gaps(planned)) >= site.interval
    assert planned[0] >= released_at
    print(
        f"\n300 reservations behind a lock: the first start is {(planned[0] - released_at).total_seconds():.4f} s "
        f"after its release, the shortest gap {min(gaps(planned)) / site.interval:.2f} intervals"
    )


def test_a_start_granted_behind_a_lock_can_be_used(
    in_threads: InThreads,
    other_connection: psycopg.Connection[Any],
    waiters: WaitersOf,
    eventually: Eventually,
) -> None:
    """A process that waited for the site's lock longer than its grace gets a start that it has time to use."""
    site_settings.set_rate(SITE, "1/s", grace=timedelta(milliseconds=300))
    slots.reserve(SITE)
    other_connection.execute("SELECT id FROM weir_ratelimit_site FOR UPDATE")

    def reserve(number: int) -> slots.Reservation | None:
        if number:
            return slots.reserve(SITE)
        eventually(lambda: waiters(other_connection) == 1, "the reservation to wait")
        held_since = clock.now()
        eventually(lambda: clock.now() > held_since + 0.5, "the lock to be held for longer than the grace")
        other_connection.rollback()
        return None

    _, reservation = in_threads(2, reserve)
    start_at = reservation.slots[0].start_at
    assert start_at > clock.now()
    assert not reservation.run.is_over(start_at)


@pytest.mark.parametrize("offset_s", [3600, -3600])
def test_a_process_whose_wall_clock_is_wrong_keeps_the_same_spacing(start_python: StartPython, offset_s: int) -> None:
    """Reservations of a right and of a wrong process, in turn, keep the interval, and their waits are true."""
    site_settings.set_rate(SITE, "1/s")
    wrong = start_python(
        RESERVE_ON_REQUEST, before=f"from tests import wrong_clock\nwrong_clock.be_wrong_by({offset_s})\n"
    )
    for wall_clock in read(wrong).split():  # it really is wrong
        assert float(wall_clock) - time.time() == pytest.approx(offset_s, abs=10)
    right = start_python(RESERVE_ON_REQUEST)
    assert float(read(right).split()[0]) == pytest.approx(time.time(), abs=10)
    for number in range(20):
        process = (right, wrong)[number % 2]
        write(process, SITE)
        answer = json.loads(read(process))
        slot = Slot.objects.get(pk=answer["id"])
        now = database_now()
        in_time(answer["wait_s"] == pytest.approx((slot.start_time - now).total_seconds(), abs=0.5), "the answer")
        in_time(answer["left_s"] == pytest.approx((slot.use_until - now).total_seconds(), abs=0.5), "the answer")
    site = Site.objects.get()
    # More if a process measured long round trips, as it does on a busy machine.
    longest = timedelta(seconds=slots.OWN_ROUND_TRIPS * round_trips.LONGEST_S)
    assert min(gaps(starts())[1:]) >= site.interval + site.effective_grace
    assert max(gaps(starts())) <= site.interval + site.effective_grace + longest
    assert gaps(starts())[0] >= site.interval
