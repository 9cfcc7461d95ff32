"""Tables are filled in haste and at length, and what is measured afterwards is not."""

import pytest
from django.db import ProgrammingError, connection

from benchmarks import database

SETTINGS = ("synchronous_commit", "session_replication_role", "statement_timeout")


def settings_of_session() -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting(name) FROM unnest(%s::text[]) AS name", [list(SETTINGS)])
        return [value for (value,) in cursor.fetchall()]


@pytest.mark.django_db(transaction=True)
def test_a_filling_that_fails_leaves_the_session_as_it_was() -> None:
    """The benchmarks that come next have the same session: they would not wait for the disk, nor have Weir's limits."""
    before = settings_of_session()
    with database.hastily():
        assert settings_of_session()[:2] == ["off", "replica"]
    with pytest.raises(ProgrammingError), database.hastily():
        database.run_at_length("SELECT FROM nowhere")
    assert settings_of_session() == before
