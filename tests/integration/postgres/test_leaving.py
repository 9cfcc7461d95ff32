"""A session that is left is not handed out again by a pool, nor another as old."""

import pytest

from tests.integration.conftest import StartPython

POOL_OF_THREE = """
from contextlib import ExitStack
from django.db import connection, connections
from weir.postgres import sessions

size = {"min_size": 3, "max_size": 3, "timeout": 10}
connections.settings["pooled"] = {
    **connection.settings_dict, "OPTIONS": {**connection.settings_dict["OPTIONS"], "pool": size}
}
pooled = connections["pooled"]

def shown():
    with pooled.cursor() as cursor:
        cursor.execute("SHOW default_transaction_read_only")
        return cursor.fetchone()[0]

pooled.ensure_connection()  # which opens the pool
pooled.close()
with ExitStack() as taken:
    for _ in range(3):
        taken.enter_context(pooled.pool.connection()).execute("SET default_transaction_read_only = on")
print(shown())
pooled.close()
print(shown())
sessions.leave(pooled)
print(shown())
sessions.leave(pooled)
sessions.leave(pooled)  # where there is none
pooled.close_pool()
"""


@pytest.mark.django_db(transaction=True)
def test_a_session_that_is_left_does_not_go_back_to_the_pool(start_python: StartPython) -> None:
    """One that is only closed does, and the next is one to the same primary, which was demoted."""
    assert start_python(POOL_OF_THREE).communicate(timeout=60)[0] == "on\non\noff\n"
