"""A pooler that has one session of PostgreSQL's for all."""

from typing import Any

import pytest
from django.db import connection

from project.doctor.findings import Level
from project.doctor.themes import pooling
from tests.waiting import wait_for

TRANSACTIONS = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in %'"


@pytest.mark.django_db(transaction=True)
def test_the_second_session_is_given_up_that_has_the_only_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or all processes would wait for it."""
    limits = pooling.LIMITS
    asked: list[object] = []

    def is_free() -> bool:
        with connection.cursor() as cursor:
            cursor.execute(TRANSACTIONS)
            return bool(cursor.fetchone() == (0,))

    def wait_for_the_session() -> Any:
        """Do as the pooler does, from the second question on."""
        if asked:
            wait_for(is_free, 5, "the only session")
        asked.append(True)
        return limits()

    monkeypatch.setattr(pooling, "LIMITS", wait_for_the_session)
    assert pooling.ask().level == Level.GOOD
    assert len(asked) == 2
