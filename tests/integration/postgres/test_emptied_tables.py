"""Tests know nothing of each other: neither by rows, nor by what PostgreSQL has counted."""

from typing import Any

import psycopg
import pytest
from django.db import OperationalError, connection

from tests.conftest import empty_written_tables
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
