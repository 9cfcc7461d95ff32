"""What the planner's settings do to the rest of a transaction, and to nothing else."""

from collections.abc import Callable

import pytest
from django.db import connection, transaction

from weir.postgres import planner

pytestmark = pytest.mark.django_db(transaction=True)


def compiles() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SHOW jit")
        [value] = cursor.fetchone()
    return str(value)


@pytest.mark.parametrize("call", [planner.by_indexes, planner.in_index_order])
def test_no_statement_is_compiled_because_a_way_was_switched_off(call: Callable[[], None]) -> None:
    """PostgreSQL 15 takes seconds to compile the Overview's statement, in sessions of a project that leaves it on."""
    with connection.cursor() as cursor:
        cursor.execute("SET jit = on")
    try:
        with transaction.atomic():
            call()
            assert compiles() == "off"
        assert compiles() == "on"
    finally:
        connection.close()
