"""What reading an unread number costs PostgreSQL."""

import pytest
from django.db import connection

from notifications import inbox

pytestmark = pytest.mark.usefixtures("valkey")


def test_reading_a_number_is_planned_once_a_connection() -> None:
    """Planning takes longer than all the rest, so one plan for any number of users is kept from the sixth call on."""
    for _ in range(20):
        inbox.unread_count(1)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT generic_plans, custom_plans FROM pg_prepared_statements WHERE statement LIKE '%%WITH redis AS%%'"
        )
        assert cursor.fetchall() == [(15, 5)]
