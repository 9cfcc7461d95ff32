"""Tests know nothing of each other by what PostgreSQL has counted."""

import pytest
from django.db import connection

from tests.conftest import empty_written_tables
from weir.ratelimit.site_settings import set_rate


@pytest.mark.django_db(transaction=True)
def test_what_is_known_of_a_table_goes_with_its_rows() -> None:
    """By it, the statements of a test would be planned for the rows of another."""
    set_rate("site.example", "1/s")
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE weir_ratelimit_site")
        empty_written_tables()
        cursor.execute("SELECT count(*) FROM pg_statistic WHERE starelid = 'weir_ratelimit_site'::regclass")
        assert cursor.fetchone() == (0,)
