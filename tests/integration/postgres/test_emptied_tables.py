"""Tests know nothing of each other: neither by rows, nor by what PostgreSQL has counted."""

from typing import Any

import psycopg
import pytest
from django.db import OperationalError, connection

from tests.conftest import empty_written_tables, renew_sessions
from tests.set_up import needs_own_sessions
from weir.postgres import sessions
from weir.postgres.timeline import gate
from weir.postgres.timeline.models import KnownTimeline
from weir.ratelimit.models import Site
from weir.ratelimit.site_settings import set_rate
from weir.workers.fetches.enqueue import request_fetches
from weir.workers.fetches.models import Fetch

MANY = 500  # rows, on more pages than are emptied row by row


@pytest.mark.django_db(transaction=True)
def test_what_is_known_of_a_table_goes_with_its_rows() -> None:
    """By it, the statements of a test would be planned for the rows of another."""
    set_rate("site.example", "1/s")
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE weir_ratelimit_site")
        empty_written_tables()
        cursor.execute("SELECT count(*) FROM pg_statistic WHERE starelid = 'weir_ratelimit_site'::regclass")
        assert cursor.fetchone() == (0,)


def files() -> tuple[int, ...]:
    """Return the numbers of the files of two tables, of which one refers to the other."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_relation_filenode('weir_ratelimit_site'), pg_relation_filenode('weir_fetches_fetch')")
        found: tuple[int, ...] = cursor.fetchone()
        return found


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("messages")
def test_few_rows_go_without_new_files_and_many_with_all_that_they_took() -> None:
    """New files take 25 ms; the pages that many rows have left would be read by each later test."""
    before = files()
    request_fetches(["http://site.example/"])
    empty_written_tables()
    assert not Site.objects.exists()
    assert not Fetch.objects.exists()
    assert files() == before

    request_fetches([f"http://site.example/{number}" for number in range(MANY)])
    empty_written_tables()
    assert not Site.objects.exists()
    assert not Fetch.objects.exists()
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_relation_size('weir_fetches_fetch')")
        assert cursor.fetchone() == (0,)


@pytest.mark.django_db(transaction=True)
def test_what_a_session_is_still_writing_is_waited_for(other_connection: psycopg.Connection[Any]) -> None:
    """It would be there in the next test."""
    other_connection.execute("INSERT INTO weir_workers_heartbeat (queue, beat_at) VALUES ('another', now())")
    with connection.cursor() as cursor:
        cursor.execute("SET lock_timeout = '0.1s'")
        with pytest.raises(OperationalError, match="lock timeout"):
            empty_written_tables()
        other_connection.rollback()
        empty_written_tables()
        cursor.execute("RESET lock_timeout")


STATE = """SELECT (SELECT count(*) FROM pg_listening_channels()), to_regclass('pg_temp.of_a_test'), (
    SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()), current_setting('work_mem'),
    current_setting('TimeZone')"""


def asked(statement: str) -> tuple[Any, ...]:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        found: tuple[Any, ...] = cursor.fetchone()
        return found


@needs_own_sessions
@pytest.mark.django_db(transaction=True)
def test_what_a_test_leaves_in_its_session_is_gone() -> None:
    """The session itself stays, and has what each session of Weir's has; one in a transaction is closed."""
    session, new = asked("SELECT pg_backend_pid()"), asked(STATE)
    values = sessions.values_of(connection.connection)
    with connection.cursor() as cursor:
        cursor.execute("SET work_mem = '65MB'; SET TimeZone = 'Asia/Tokyo'; SET jit = on; SET statement_timeout = 0")
        cursor.execute("LISTEN of_a_test; CREATE TEMP TABLE of_a_test (); SELECT pg_advisory_lock(41)")
    assert all(left != before for left, before in zip(asked(STATE), new, strict=True))
    renew_sessions()
    assert (asked("SELECT pg_backend_pid()"), asked(STATE)) == (session, new)
    assert sessions.values_of(connection.connection) == values
    connection.connection.execute("BEGIN")
    renew_sessions()
    assert asked("SELECT pg_backend_pid()") != session


@pytest.mark.usefixtures("known_again")
def test_a_wrong_history_is_not_left_to_the_next_test() -> None:
    """The tests that follow would be granted nothing, and would not say why."""
    KnownTimeline.objects.update(closed_because="It went back.")
    with pytest.raises(AssertionError, match="known_again"):
        empty_written_tables()
    KnownTimeline.objects.update(closed_because="")
    gate.remember(KnownTimeline.objects.get().generation + 1)
    with pytest.raises(AssertionError, match="known_again"):
        empty_written_tables()
