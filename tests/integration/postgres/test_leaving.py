"""A session that is left is not handed out again by a pool."""

import pytest

from tests.integration.conftest import StartPython

POOL_OF_ONE = """
from django.db import connection, connections
from weir.postgres import sessions

options = {**connection.settings_dict["OPTIONS"], "pool": {"min_size": 1, "max_size": 1, "timeout": 10}}
connections.settings["pooled"] = {**connection.settings_dict, "OPTIONS": options}
pooled = connections["pooled"]

def shown():
    with pooled.cursor() as cursor:
        cursor.execute("SHOW default_transaction_read_only")
        return cursor.fetchone()[0]

with pooled.cursor() as cursor:
    cursor.execute("SET default_transaction_read_only = on")
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
    """One that is only closed does, and so would one to a primary that was demoted."""
    assert start_python(POOL_OF_ONE).communicate(timeout=60)[0] == "on\noff\n"
