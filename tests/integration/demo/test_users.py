"""The demo's users: their actions cause no drift, and they find drift that something else causes."""

from random import Random

import pytest
from django.db import connection

from demo.users import ACTIONS, AT_ONCE, USER_IDS, Users, drifted
from weir.notifications import flush, inbox

pytestmark = pytest.mark.usefixtures("valkey")


def test_users_find_no_drift_in_what_they_do() -> None:
    """Every action, again and again, with flushes in between: all answers are right, and the figures add up."""
    users = Users(Random(1))  # noqa: S311  no secret
    for _ in range(5):
        for action in ACTIONS:
            action(users)
        flush.flush_sealed()
    state = users.state()
    assert state["notified"] == 5 * (1 + AT_ONCE)
    assert state["unread_reads"] == 5
    assert state["drifted"] == []
    assert drifted(USER_IDS) == set()


def test_users_find_a_number_that_is_wrong() -> None:
    """Rows that raw SQL deletes, past the counters, are drift for every user that is checked."""
    users = Users(Random(1))  # noqa: S311  no secret
    inbox.notify_many(USER_IDS, "news", "Hello")
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM weir_notifications_notification")
    users.ask()
    found = users.state()["drifted"]
    assert isinstance(found, list)
    assert len(found) == AT_ONCE
    assert drifted(USER_IDS) == set(USER_IDS)


def test_the_actions_are_shared_out() -> None:
    """Their frequencies are percentages."""
    assert sum(ACTIONS.values()) == 100
