"""`manage.py status`: the numbers are right, what is wrong is said, and it costs no more than it may."""

import json
import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from io import StringIO
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from django.core.management import call_command
from django.db import connection, connections, transaction
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.db.models.functions import Now
from pydantic import SecretStr
from pytest_django import Settings

from tests import programs
from tests.integration.conftest import Eventually, WaitersOf, database_now
from tests.integration.fetching import queue_pages
from weir.ratelimit import site_settings
from weir.ratelimit.models import Site
from weir.redis_link import calls
from weir.workers import broker_link
from weir.workers.fetches.enqueue import request_fetch, request_fetches
from weir.workers.fetches.models import Batch, Fetch, FetchState
from weir.workers.fetches.on_done import unknown
from weir.workers.history.models import Minute
from weir.workers.mail.models import Email
from weir.workers.orders import shipping
from weir.workers.orders.models import Order
from weir.workers.overview import locks, schema
from weir.workers.overview.overview import STALLED_AFTER_S, count
from weir.workers.overview.problems import NEEDED
from weir.workers.processes.models import Process

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("messages")]

TABLES = (
    "weir_fetches_fetch",
    "weir_ratelimit_site",
    "weir_mail_email",
    "weir_notifications_doubt",
    "weir_notifications_flushedepoch",
)


def told(*options: str) -> tuple[str, int]:
    """Return what the command prints, and its exit status."""
    output = StringIO()
    try:
        call_command("status", *options, stdout=output)
    except SystemExit as end:
        return output.getvalue(), int(str(end.code))
    return output.getvalue(), 0


def data() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(told("--json")[0])
    return found


@pytest.fixture
def alive(transactional_db: None) -> None:  # noqa: ARG001  must come first
    """Create a process of each kind."""
    for kind in NEEDED:
        Process.objects.create(kind=kind, name=f"{kind}@host", host="host", pid=7)


@pytest.mark.usefixtures("alive")
def test_where_nothing_is_wrong_it_says_so() -> None:
    """With exit status 0."""
    text, status = told()
    assert text.endswith("\nNothing needs you.\n")
    assert status == 0
    assert [line.split()[0] for line in text.splitlines()[:6] if line.split()] == [
        "paced", "no", "counted", "once", "processes", "messages",
    ]  # fmt: skip


@pytest.mark.usefixtures("alive")
def test_fetches_are_counted_by_state_and_sites_by_theirs() -> None:
    """What ended counts for an hour; the oldest due fetch is found wherever it is; sites count while work waits."""
    for name in ("a.example", "b.example", "c.example", "d.example"):
        site_settings.set_rate(name, "1/s")
    request_fetches([f"http://{name}.example/" for name in "aaabcd"])
    request_fetch("http://a.example/later", not_before=database_now() + timedelta(hours=1))
    ids = list(Fetch.objects.order_by("pk").values_list("pk", flat=True))
    held = {"slot_id": 1, "lease_until": database_now()}
    Fetch.objects.filter(pk=ids[0]).update(state=FetchState.RESERVED, **held)
    Fetch.objects.filter(pk=ids[1]).update(state=FetchState.DONE, status_code=200, finished_at=database_now())
    Fetch.objects.filter(pk=ids[3]).update(not_before=database_now() - timedelta(minutes=5))
    site_settings.pause("b.example")
    site_settings.back_off("c.example", 100)
    site_settings.back_off("d.example", error="refused")
    found = data()
    assert {name: found[name] for name in ("queued", "reserved", "running", "done", "failed", "cancelled")} == {
        "queued": 5, "reserved": 1, "running": 0, "done": 1, "failed": 0, "cancelled": 0,
    }  # fmt: skip
    assert {name: found[name] for name in ("sites", "paused", "backed_off", "unreachable", "stalled")} == {
        "sites": 4, "paused": 1, "backed_off": 1, "unreachable": 1, "stalled": 0,
    }  # fmt: skip
    assert found["resting"] == 0
    in_api = programs.Program(programs.token()).call("GET", "/status").json()["numbers"]
    assert found["ended_per_s"] == in_api["ended_per_s"] == 1 / 60
    assert "in the last minute 0.0 ended a second" in told()[0]
    site_settings.rest("c.example", 200, reason="its quota is used up (RateLimit)")
    assert [data()[name] for name in ("backed_off", "resting")] == [0, 1]
    assert 300 <= found["oldest_due_s"] < 310
    Fetch.objects.filter(pk=ids[1]).update(finished_at=database_now() - timedelta(hours=2))
    assert data()["done"] == 0


@pytest.mark.usefixtures("alive")
def test_a_site_at_which_nothing_starts_though_it_could_is_a_problem() -> None:
    """With one of its fetches, of which `fetches why` says more."""
    site_settings.set_rate("a.example", "1/s")
    fetch = request_fetch("http://a.example/")
    assert told()[1] == 0
    Fetch.objects.update(not_before=database_now() - timedelta(seconds=STALLED_AFTER_S + 1))
    text, status = told()
    assert status == 1
    assert (
        f"! Due fetches of 1 site do not start, though their rate would allow it. -> manage.py fetches why {fetch.pk}"
        in text
    )
    site_settings.set_rate("a.example", "1/s", max_concurrency=1)
    assert told()[1] == 0


@pytest.mark.usefixtures("alive")
def test_a_pause_that_only_a_person_ends_is_a_problem_once_fetches_are_due_there() -> None:
    """With the command that ends it; a pause that ends by itself is none."""
    for name in ("a.example", "b.example"):
        site_settings.set_rate(name, "1/s")
        site_settings.pause(name)
    later = database_now() + timedelta(hours=1)
    request_fetches(["http://a.example/", "http://b.example/"], not_before=later)
    assert told()[1] == 0
    request_fetch("http://a.example/")
    text, status = told()
    assert status == 1
    resume = "manage.py sites resume a.example"
    assert text.endswith(f"\n\n! Due fetches wait until an operator resumes a.example, which is paused. -> {resume}\n")
    site_settings.pause("a.example", timedelta(hours=1))
    assert told()[1] == 0


@pytest.mark.usefixtures("alive")
def test_a_migration_that_is_not_applied_needs_a_person(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where nothing can be counted for want of a column; this process asks no more once all are applied."""
    monkeypatch.setattr(schema, "_known", schema._Known())
    recorder = MigrationRecorder(connection)
    newest = MigrationLoader(connection).graph.leaf_nodes("weir_fetches")[0]
    recorder.record_unapplied(*newest)
    with connection.cursor() as cursor:
        try:
            told_before = told()
            cursor.execute("ALTER TABLE weir_fetches_fetch RENAME COLUMN on_done_again_at TO missing")
            told_without = told()
        finally:
            cursor.execute("ALTER TABLE weir_fetches_fetch RENAME COLUMN missing TO on_done_again_at")
            recorder.record_applied(*newest)
    sentence = "! 1 migration is not applied. -> manage.py migrate\n"
    assert (told_before[0].endswith(f"\n{sentence}"), told_without[0]) == (True, sentence)
    assert (told_before[1], told_without[1]) == (1, 1)
    assert told()[1] == 0
    recorder.record_unapplied(*newest)
    try:
        assert told()[1] == 0
    finally:
        recorder.record_applied(*newest)


@pytest.mark.usefixtures("alive")
def test_a_task_that_a_worker_does_not_know_needs_a_person() -> None:
    """It is named, until it is called again, and so is the parameter that names it."""
    for task in ("shop.tasks.other", "shop.tasks.arived", "shop.tasks.arived"):
        unknown.record(request_fetch("not a URL", on_done=task).pk, task)
    text, status = told()
    assert status == 1
    assert "! 3 calls of on_done were not made, as a worker does not know the task shop.tasks.arived." in text
    batch = Batch.objects.create(name="import-7", on_done="shop.tasks.arived", ended_at=database_now())
    unknown.record_batch(batch.pk, batch.on_done)
    assert "! 4 calls of on_batch_done and on_done were not made" in told()[0]
    Fetch.objects.update(on_done_again_at=None)
    assert "! 1 call of on_batch_done was not made" in told()[0]
    Batch.objects.update(on_done_again_at=None)
    assert told()[1] == 0


@pytest.mark.usefixtures("alive")
def test_an_unknown_e_mail_needs_a_person() -> None:
    """It is said how many there are, and how old the oldest is."""
    order = Order.objects.create(number="A-1", customer_email="a@example.com")
    shipping.ship(order.pk)
    assert (data()["pending"], told()[1]) == (1, 0)
    since = database_now() - timedelta(hours=2)
    Email.objects.update(
        state="unknown", claim_token=uuid4(), sending_since=since, phase="after dot", last_reply="reset by peer"
    )
    text, status = told()
    assert status == 1
    assert "! 1 e-mail may have arrived or not, the oldest for 2h 00m. -> manage.py emails list" in text


def have_ended(minutes_ago: int, *, sent: int, failed: int) -> None:
    """Write so many e-mails into the history."""
    at = (database_now() - timedelta(minutes=minutes_ago)).replace(second=0, microsecond=0)
    Minute.objects.create(minute=at, emails_sent=sent, emails_failed=failed)


def fail(number: int, kind: str, reply: str, *, minutes_ago: int = 5) -> None:
    """Create so many e-mails that failed."""
    first = Email.objects.count()
    Email.objects.bulk_create(
        Email(
            kind=kind,
            key=str(first + each),
            recipient="kim@example.com",
            message_id=f"<{first + each}@x>",
            state="failed",
            last_reply=reply,
            ended_at=database_now() - timedelta(minutes=minutes_ago),
        )
        for each in range(number)
    )


@pytest.mark.usefixtures("alive")
def test_that_e_mails_fail_in_masses_needs_a_person() -> None:
    """With the kind and the reply of most of them, whatever stands in front of it or changes at its end."""
    fail(9, "note", "550 5.1.1 no such user")
    for each in range(12):
        fail(1, "order.shipped", f"Given up after {each} attempts: 550 Not from here, I know you not (id {each}).")
    fail(90, "note", "552 of yesterday", minutes_ago=61)
    have_ended(61, sent=1_000, failed=90)
    have_ended(3, sent=100, failed=10)
    have_ended(2, sent=79, failed=11)
    text, status = told()
    assert status == 1
    assert text.splitlines()[-1] == (
        "! 21 of 200 e-mails that ended in the last hour failed, most of the kind order.shipped with the reply: 550 "
        "Not from here, I know you not (id 9). -> manage.py emails list --state failed --kind order.shipped; when the "
        "cause is mended, manage.py emails resend"
    )


@pytest.mark.usefixtures("alive")
@pytest.mark.parametrize(("sent", "failed"), [(0, 19), (191, 21), (0, 0)])
def test_a_few_e_mails_that_fail_are_no_problem(sent: int, failed: int) -> None:
    """Neither few in all, nor few of many."""
    fail(failed, "note", "550 No")
    have_ended(2, sent=sent, failed=failed)
    assert told()[1] == 0


@pytest.mark.usefixtures("alive")
def test_masses_of_failed_e_mails_that_have_gone_are_told_without_a_kind() -> None:
    have_ended(2, sent=0, failed=20)
    last = told()[0].splitlines()[-1]
    assert last.startswith(
        "! 20 of 20 e-mails that ended in the last hour failed. -> manage.py emails list --state failed"
    )


def test_the_line_on_unread_numbers_says_when_changes_came_to_postgresql() -> None:
    """Not when a flush last looked and found none."""
    assert ", no change has come from Redis to PostgreSQL yet, " in told()[0]
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO weir_notifications_flushedepoch (epoch, users, flushed_at) "
            "VALUES (1, 1, now() - interval '1 hour')"
        )
    assert ", the last changes came from Redis to PostgreSQL 1h 00m ago, " in told()[0]


def test_a_broker_that_is_away_and_missing_processes_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a line each; the rest is shown all the same. No transaction is open meanwhile."""

    def away(_queue: str) -> int:
        assert not connection.in_atomic_block
        raise broker_link.BrokerUnreachable("refused")

    monkeypatch.setattr(broker_link, "waiting_in", away)
    text, status = told()
    assert status == 1
    assert text.splitlines()[-2:] == [
        "! The broker cannot be reached (refused): workers hear of nothing. -> start it, or correct its URL",
        "! No process is known: nothing runs. -> make up, or what manage.py weir_processes prints",
    ]
    assert "paced" in text


def test_a_redis_that_is_away_is_said(settings: Settings) -> None:
    """That its numbers were right when they were last compared is no news then."""
    settings.WEIR_REDIS_URL = SecretStr("redis://127.0.0.1:1/0")
    calls.forget()
    try:
        text, status = told()
    finally:
        calls.forget()
    assert status == 1
    assert ", Redis cannot be reached" in text
    [said] = [line for line in text.splitlines() if line.startswith("! Redis ")]
    assert "(Error 111 connecting to 127.0.0.1:1" in said
    assert said.endswith("): unread numbers are counted row by row. -> start it, or correct WEIR_REDIS_URL")


def rows_read() -> dict[str, int]:
    """Return how many rows of each table this connection has read lately, by PostgreSQL's own statistics."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT relname, seq_tup_read + coalesce(idx_tup_fetch, 0)
            FROM pg_stat_xact_user_tables
            WHERE relname = ANY(%s)
            """,
            [list(TABLES)],
        )
        return dict(cursor.fetchall())


@pytest.mark.parametrize("analyze", [False, True])
def test_no_more_rows_are_read_than_are_counted(analyze: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there are, with statistics and without."""
    most, many = 50, 3_000
    with connection.cursor() as cursor:
        cursor.execute(
            """
            INSERT INTO weir_ratelimit_site (name, "interval", burst, has_backlog, covers_subdomains)
            SELECT 'h' || n || '.example', '1 s', 1, true, false FROM generate_series(1, %s) AS n
            """,
            [many],
        )
        queue_pages(3)
        ended = Fetch.objects.filter(pk__in=Fetch.objects.values("pk")[: 2 * many])
        ended.update(state=FetchState.DONE, status_code=200, finished_at=database_now())
        Fetch.objects.filter(finished_at__isnull=False).update(on_done_again_at=Now())
        cursor.execute(
            """
            INSERT INTO weir_mail_email (kind, key, state, message_id, attempts, claimed_by, phase, last_reply)
            SELECT 'k', n, 'pending', n, 0, '', '', '' FROM generate_series(1, %s) AS n
            """,
            [many],
        )
        cursor.execute("UPDATE weir_mail_email SET next_attempt_at = now() - interval '1 hour'")
        cursor.execute(
            """
            INSERT INTO weir_mail_email
                (kind, key, state, message_id, attempts, claimed_by, phase, last_reply, ended_at)
            SELECT 'k', 'f' || n, 'failed', n, 1, '', 'not begun', '550 No', now() FROM generate_series(1, %s) AS n
            """,
            [many],
        )
        have_ended(2, sent=0, failed=many)
        cursor.execute(
            "INSERT INTO weir_notifications_doubt (user_id, noted_at) SELECT n, now() FROM generate_series(1, %s) AS n",
            [many],
        )
        cursor.execute(
            """
            INSERT INTO weir_notifications_flushedepoch (epoch, users, flushed_at)
            SELECT n, 1, now() FROM generate_series(1, %s) AS n
            """,
            [many],
        )
        for table in TABLES:
            cursor.execute("DELETE FROM pg_statistic WHERE starelid = %s::regclass", [table])
        if analyze:
            cursor.execute("ANALYZE " + ", ".join(TABLES))
    monkeypatch.setattr("weir.workers.overview.overview.MOST", most)
    monkeypatch.setattr("weir.workers.overview.overview.HEADS", 10)
    with transaction.atomic():
        before = rows_read()
        numbers = count()
        assert (numbers.queued, numbers.failing, numbers.failing_reply) == (most + 1, many, "550 No")
        assert numbers.late_kinds == ["k"]
        assert numbers.uncalled == most + 1
        read = {table: rows - before[table] for table, rows in rows_read().items()}
    assert read.keys() == set(TABLES)
    assert {table: rows for table, rows in read.items() if not 0 < rows <= 3 * (most + 1) + 10} == {}
    assert Site.objects.count() == many


def test_what_is_more_than_is_counted_is_known_from_the_newest_and_the_history(monkeypatch: pytest.MonkeyPatch) -> None:
    """How many fetches ended a second, of those that were counted; and how many e-mails were sent in the hour."""
    request_fetches([f"http://{number}.example/" for number in range(20)])
    Fetch.objects.update(state="cancelled", finished_at=database_now() - timedelta(seconds=1))
    fail(20, "note", "550 No")
    have_ended(2, sent=70, failed=80)
    assert count().ended_per_s == pytest.approx(20 / 60)
    assert (count().sent_hour, count().failed_hour) == (0, 20)
    monkeypatch.setattr("weir.workers.overview.overview.MOST", 10)
    assert 11 / 60 < count().ended_per_s <= 11
    assert (count().sent_hour, count().failed_hour) == (11, 11)


@pytest.mark.usefixtures("alive")
@pytest.mark.parametrize(
    ("minutes_ago", "missed", "needs_somebody"), [(2, 120, True), (2, 99, False), (2, 101, False), (9, 120, False)]
)
def test_fetchers_that_are_behind_need_somebody(minutes_ago: int, missed: int, needs_somebody: bool) -> None:
    """What ticks warn of (`fetchers_are_behind`) is missed slots; a fetcher that was killed misses a few."""
    at = database_now() - timedelta(minutes=minutes_ago)
    Minute.objects.create(minute=at, slots_used=1_000 if missed < 120 else 800, slots_missed=missed)
    text, status = told()
    assert (status == 1) == ("! Fetchers are behind: " in text) == needs_somebody


@pytest.mark.usefixtures("alive")
@pytest.mark.parametrize("table", ["weir_fetches_fetch", "weir_processes_process"])
def test_a_table_that_is_locked_keeps_it_up_for_seconds_only(
    table: str, other_connection: psycopg.Connection[Any]
) -> None:
    """Whoever holds the lock is named, with how it is ended; also where nobody else waits for it."""
    other_connection.execute("SET application_name = 'alter-table'")
    other_connection.execute(f"LOCK TABLE {table}")
    began_at = time.monotonic()
    for options in ((), ("--json",)):
        text, status = told(*options)
        assert status == 1
        assert f"Process {other_connection.info.backend_pid} of PostgreSQL (alter-table, role " in text
        assert f"SELECT pg_terminate_backend({other_connection.info.backend_pid})" in text
    assert time.monotonic() - began_at < 20
    other_connection.rollback()
    assert told()[1] == 0


@pytest.mark.usefixtures("alive")
def test_who_holds_up_others_is_named(
    other_connection: psycopg.Connection[Any],
    waiters: WaitersOf,
    eventually: Eventually,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first of a chain, once they wait for long. A row that is locked holds up no look."""
    site_settings.set_rate("a.example", "1/s")
    other_connection.execute("SELECT FROM weir_ratelimit_site FOR UPDATE")
    with ThreadPoolExecutor(2) as pool:
        both = [pool.submit(in_thread, lambda: site_settings.set_rate("a.example", "2/s")) for _ in range(2)]
        try:
            eventually(lambda: waiters(other_connection) == 2, "one that waits for it, and one that waits for that")
            assert [holder.pid for holder in locks.holders(after_s=0)] == [other_connection.info.backend_pid]
            assert told()[1] == 0  # not for long
            monkeypatch.setattr(locks, "LONG_S", 0.0)
            text, status = told()
        finally:
            other_connection.rollback()
        for waits in both:
            waits.result(timeout=20)
    assert status == 1
    assert f"! Process {other_connection.info.backend_pid} of PostgreSQL (" in text
    assert re.search(r"holds a lock for which [12] sessions? waits?, the longest for [0-9]", text)


def in_thread(call: Callable[[], object]) -> None:
    try:
        call()
    finally:
        connections.close_all()
