"""The rollup adds each past minute to the totals once: they equal a count of all rows that asks nothing of it."""

import signal
from collections import Counter
from datetime import timedelta
from itertools import product
from typing import Any

import psycopg
import pytest
from django.db import connection
from django.db.models import Sum
from django.db.models.functions import Now
from pytest_django import Settings

from tests.integration.conftest import Eventually, InThreads, StartPython, database_now, waiting_for_nobody
from tests.integration.history.conftest import MINUTE, SECOND, Past, began_ago, recounted
from weir.conf import settings as weir_settings
from weir.notifications.models import FlushedEpoch
from weir.notifications.removal import retention
from weir.postgres import statements
from weir.postgres.statements import Statement
from weir.ratelimit.models import Site, Slot
from weir.workers.fetches.models import Fetch
from weir.workers.fetches.retrying import retry_failed
from weir.workers.history import rollup
from weir.workers.history.models import Minute, SiteMinute, Watermark
from weir.workers.history.reports import totals

pytestmark = pytest.mark.django_db(transaction=True)

# Rolls up until it is killed: before the statement `sys.argv[1]` is executed for the `sys.argv[2]`th time.
KILLED = """
import signal
from weir.postgres import statements
from weir.workers.history import rollup
execute, left = statements.execute, {sys.argv[1]: int(sys.argv[2])}
def counted(statement, *how):
    name = statement.name
    left[name] = left.get(name, 0) - 1
    if left[name] == 0 and not AFTER:
        os.kill(os.getpid(), signal.SIGKILL)
    answer = execute(statement, *how)
    if left[name] == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return answer
statements.execute = counted
rollup.roll_up()
"""
FOREVER = """
from weir.workers.history import rollup
print("ready", flush=True)
sys.stdin.readline()
while True:
    rollup.roll_up(3)
"""


def roll_up_all() -> int:
    """Roll up, call by call, until no minute is left; returns how many were."""
    rolled_up = 0
    while minutes := rollup.roll_up():
        rolled_up += minutes
    return rolled_up


def expected_minutes(past: Past) -> int:
    return (database_now() - timedelta(seconds=rollup.trail_s()) - past.began) // MINUTE


def test_totals_are_a_recount(past: Past) -> None:
    """Each slot, fetch and minute is counted once, by what became of it; the rows of minutes add up to the totals."""
    past.fill(40, 20)

    rolled_up = roll_up_all()

    assert rolled_up == expected_minutes(past) > 30
    assert totals() == recounted(past.began)
    assert Minute.objects.count() == rolled_up
    of_minutes = Minute.objects.aggregate(
        used=Sum("slots_used"), done=Sum("fetches_done"), allowed=Sum("slots_allowed")
    )
    of_sites = SiteMinute.objects.aggregate(used=Sum("slots_used"), allowed=Sum("slots_allowed"))
    counted = totals()
    assert of_minutes["used"] == of_sites["used"] == counted["slots", "used"]
    assert of_minutes["allowed"] == of_sites["allowed"] == counted["slots_allowed", ""]
    assert of_minutes["done"] == counted["fetches_ended", "done"]


def test_a_minute_has_all_that_happened_in_it(past: Past) -> None:
    """Fetches by the moment of their end, slots by that of their start; a minute without anything has zeros."""
    site, at = Site.objects.get(name="b.example"), past.at(2) - timedelta(microseconds=1)
    for kind in ({"finished_at": at}, {"released_at": at}, {"released_at": at + 3 * SECOND}, {}):
        Slot.objects.create(site=site, start_time=at, use_until=at + SECOND, interval=SECOND, **kind)
    for lateness_ms in (1.0, 3.0, 9.0):
        Fetch.objects.create(url="u", site=site, state="done", status_code=200, finished_at=at, lateness_ms=lateness_ms)
    Fetch.objects.create(url="u", state="failed", error="the site answered 429 (attempt 5 of 5)", finished_at=at)
    FlushedEpoch.objects.create(epoch=7, users=40, flushed_at=at)
    FlushedEpoch.objects.create(epoch=8, users=2, flushed_at=at)

    roll_up_all()

    seen = Minute.objects.get(minute=past.at(1))
    assert (seen.slots_used, seen.slots_given_back, seen.slots_missed, seen.slots_unreported) == (1, 1, 1, 1)
    assert (seen.slots_allowed, seen.fetches_done, seen.fetches_failed, seen.refused) == (60, 3, 1, 1)
    assert (seen.lateness_p50_ms, round(seen.lateness_p99_ms or 0, 2)) == (3.0, 8.88)
    assert seen.unread_flushed == 42
    [of_site] = SiteMinute.objects.all()
    assert (of_site.minute, of_site.site_id, of_site.slots_used, of_site.fetches_done) == (past.at(1), site.pk, 1, 3)
    quiet = Minute.objects.get(minute=past.at(2))
    assert (quiet.slots_used, quiet.fetches_done, quiet.lateness_p50_ms) == (0, 0, None)


def test_a_recall_makes_slots_void(past: Past) -> None:
    """The last recall of the slot's own site counts."""
    site, other = Site.objects.get(name="a.example"), Site.objects.get(name="b.example")
    at = past.at(1.5)
    for of in (site, other):
        slot = Slot.objects.create(site=of, start_time=at, use_until=at, interval=SECOND, released_at=at - SECOND)
    Site.objects.filter(pk=site.pk).update(recalled_slot=slot.pk, recalled_at=at - 2 * SECOND)

    roll_up_all()

    assert Counter({fate: number for (series, fate), number in totals().items() if series == "slots"}) == {
        "void": 1,
        "given back": 1,
    }


def test_the_first_rollup_begins_with_the_present() -> None:
    """What was before is unknown: it gets no rows, and is in no total."""
    Fetch.objects.create(url="u", state="failed", error="?", finished_at=database_now() - timedelta(minutes=30))

    assert rollup.roll_up() == 0

    assert Watermark.objects.get().rolled_until <= database_now() < Watermark.objects.get().rolled_until + 2 * MINUTE
    assert (totals(), Minute.objects.count()) == ({}, 0)


def test_it_trails_until_all_outcomes_are_known(past: Past, settings: Settings) -> None:
    """A minute is left alone while an outcome may come: an answer may take as long as the time-outs say."""
    before = rollup.trail_s()
    settings.WEIR_FETCH_TIMEOUT = weir_settings.WEIR_FETCH_TIMEOUT + 600.0
    assert rollup.trail_s() == before + 600
    assert roll_up_all() == expected_minutes(past)

    assert Watermark.objects.get().rolled_until <= database_now() - timedelta(seconds=rollup.trail_s())


def test_a_rollup_that_is_killed_counts_nothing_twice(
    past: Past, start_python: StartPython, eventually: Eventually
) -> None:
    """Wherever it is killed: the next one goes on, and the totals are a recount."""
    past.fill(40, 10)
    killed_in = 0  # the minute, from the first one on
    for number, statement, after in product([1, 2, 4], ["next_minute", "rollup"], [False, True]):
        case = f"{'after' if after else 'before'} {statement}, the {number}th time"
        process = start_python(f"AFTER = {after}\n{KILLED}", statement, number)
        assert process.wait(30) == -signal.SIGKILL, case
        killed_in += number - 1
        assert Minute.objects.count() == killed_in, f"{case}: the transaction that it was in is undone, and no other"
        # PostgreSQL keeps the watermark's lock until it has seen that the process is dead.
        eventually(lambda: rollup.roll_up(1) == 1, f"the next rollup: {case}")
        killed_in += 1
        assert totals() == recounted(past.began), case

    roll_up_all()

    assert totals() == recounted(past.began)


def test_two_at_once_count_nothing_twice(past: Past, start_python: StartPython, eventually: Eventually) -> None:
    """Of several processes one has the watermark's lock; the others leave the minute to it."""
    past.fill(40, 10)
    processes = [start_python(FOREVER) for _ in range(3)]
    for process in processes:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin
        process.stdin.write("go\n")
        process.stdin.flush()

    eventually(lambda: Minute.objects.count() >= expected_minutes(past), "the last minute")

    assert [process.poll() for process in processes] == [None] * len(processes), "none has failed on another's minute"
    for process in processes:
        process.kill()
        process.wait()
    assert Minute.objects.count() == totals()["rollups", ""]
    assert totals() == recounted(past.began)


def test_another_rollup_is_not_waited_for(past: Past, other_connection: psycopg.Connection[Any]) -> None:
    """While a process holds the watermark, there is nothing to do for others."""
    other_connection.execute("SELECT FROM weir_history_watermark FOR UPDATE")
    with waiting_for_nobody():
        assert rollup.roll_up() == 0
    other_connection.rollback()
    assert rollup.roll_up(1) == 1
    assert past.began < Watermark.objects.get().rolled_until


def test_fetches_that_end_meanwhile_are_counted_once(
    past: Past, in_threads: InThreads, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that are written while minutes are rolled up are in the totals when their own minute is."""
    past.fill(38, 5)

    def work(number: int) -> None:
        if number == 0:
            roll_up_all()
            return
        for _ in range(100):
            Fetch.objects.create(url="u", state="failed", error="?", finished_at=Now())

    in_threads(4, work)
    assert totals() == recounted(past.began)
    monkeypatch.setattr(rollup, "trail_s", lambda: -2 * 60.0)  # as if those minutes were long over
    roll_up_all()

    assert totals() == recounted(past.began)
    assert Fetch.objects.count() == sum(number for (series, _), number in totals().items() if series == "fetches_ended")


@pytest.mark.parametrize(("spare_s", "is_whole"), [(0.0, True), (-60.0, False)])
def test_what_is_kept_for_as_long_as_it_needs_is_counted_whole(
    past: Past, settings: Settings, monkeypatch: pytest.MonkeyPatch, spare_s: float, *, is_whole: bool
) -> None:
    """A rollup in time finds all of the minute; where it is kept for less, the minute gets no row."""
    minute = past.at(39)
    age_s = (database_now() - minute).total_seconds()
    monkeypatch.setattr(rollup, "trail_s", lambda: age_s - 60.0)  # it has just become due
    settings.WEIR_SLOT_RETENTION = rollup.needed_s() + spare_s

    roll_up_all()

    assert Watermark.objects.get().rolled_until == minute + MINUTE
    assert Minute.objects.filter(minute=minute).exists() == is_whole


@pytest.mark.usefixtures("messages")
@pytest.mark.parametrize(("is_rolled_up", "ends"), [(False, 1), (True, 2)])
def test_a_retry_takes_back_an_end_that_is_not_counted_yet(past: Past, ends: int, *, is_rolled_up: bool) -> None:
    """A fetch counts at each end that was rolled up before it began again; another one is forgotten with its row."""
    site = Site.objects.get(name="a.example")
    failed = Fetch.objects.create(
        url="http://a.example/", site=site, state="failed", error="?", finished_at=past.at(1.5), max_attempts=1
    )
    if is_rolled_up:
        assert rollup.roll_up(3) == 3
    assert retry_failed(Fetch.objects.filter(pk=failed.pk)).queued == 1
    Fetch.objects.filter(pk=failed.pk).update(state="failed", error="?", finished_at=past.at(5.5))

    roll_up_all()

    assert totals()["fetches_ended", "failed"] == ends


def test_one_that_is_late_by_hours_catches_up(past: Past, settings: Settings) -> None:
    """Call by call, a bounded number of minutes each; of what may have been purged, the rest counts."""
    settings.WEIR_SLOT_RETENTION = 3 * 3600.0
    past = began_ago(timedelta(hours=5))
    past.fill(300, 1)

    assert rollup.roll_up() == rollup.MOST_MINUTES
    roll_up_all()

    assert totals() == recounted(past.began)
    first = Minute.objects.earliest("minute").minute
    assert timedelta(hours=1.9) < first - past.began < timedelta(hours=2.1), "a gap, where slots may be gone"
    assert Minute.objects.count() == (Watermark.objects.get().rolled_until - first) // MINUTE


def test_one_that_is_late_by_weeks_begins_where_history_does(past: Past, settings: Settings) -> None:
    """Minutes that would be deleted at once are passed over."""
    settings.WEIR_HISTORY_RETENTION = 600.0
    rollup.roll_up()
    assert Minute.objects.earliest("minute").minute > past.at(25)


def test_a_minute_has_no_time_limit(past: Past, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was too large for the limit of statements would never be rolled up, nor any after it."""
    past.fill(4, 2)
    limits: dict[str, str] = {}
    execute = statements.execute

    def look(statement: Statement[Any], *how: Any) -> Any:
        with connection.cursor() as cursor:
            cursor.execute("SHOW statement_timeout")
            limits[statement.name] = cursor.fetchone()[0]
        return execute(statement, *how)

    monkeypatch.setattr(statements, "execute", look)
    assert rollup.roll_up(1) == 1
    assert limits == {"begin": "1min", "next_minute": "1min", "rollup": "0"}


def test_old_minutes_are_deleted(past: Past, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """In short batches; totals stay."""
    past.fill(40, 2)
    roll_up_all()
    before = totals()
    monkeypatch.setattr(rollup, "PURGE_BATCH", 7)
    settings.WEIR_HISTORY_RETENTION = 20 * 60.0
    oldest = database_now() - timedelta(minutes=20)

    rollup.purge()

    assert not Minute.objects.filter(minute__lt=oldest).exists()
    assert not SiteMinute.objects.filter(minute__lt=oldest).exists()
    assert Minute.objects.count() > 15
    assert SiteMinute.objects.exists()
    assert totals() == before


def test_the_busiest_sites_have_rows(past: Past, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of more sites than there are rows for, those with most slots and ended fetches have them."""
    monkeypatch.setattr(rollup, "MOST_SITES", 1)
    sites, at = Site.objects.order_by("name"), past.at(0.5)
    for count, site in enumerate(sites, 1):
        for _ in range(count):
            Slot.objects.create(site=site, start_time=at, use_until=at, interval=SECOND, finished_at=at)

    roll_up_all()

    [row] = SiteMinute.objects.all()
    assert (row.site_id, row.slots_used) == (sites[2].pk, 3)
    assert Minute.objects.get(minute=past.began).slots_used == 6


def test_a_deleted_site_is_counted(past: Past) -> None:
    """Its slots are history."""
    past.fill(3, 10)
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM weir_ratelimit_site")

    roll_up_all()

    assert totals() == recounted(past.began)


def test_flushes_are_remembered_for_as_long_as_a_rollup_expects() -> None:
    """The two jobs do not know each other."""
    assert rollup.NOTES_OF_EPOCHS_S == retention.DAY_S
