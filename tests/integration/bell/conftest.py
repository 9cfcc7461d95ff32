"""People who are signed in, and what the servers themselves count of their requests."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
import redis
from django.contrib.auth import get_user_model
from django.db import connection
from django.test import Client

from tests.integration.notifications.conftest import looks_at_once, reconcile_at_once
from weir.notifications import flush

__all__ = ["looks_at_once", "reconcile_at_once"]
CALLS = ("eval", "evalsha", "get", "set", "time", "script|exists", "script|load", "del")  # no script uses others
STATEMENTS = """
    SELECT count(*), max(query_start) FROM pg_stat_activity
    WHERE datname = %s AND pid <> pg_backend_pid() AND backend_type = 'client backend'
"""  # an autovacuum worker comes and goes by itself


@dataclass(kw_only=True)
class Tab:
    """A tab of a browser: it asks as bell.js does, and keeps the last number that it got."""

    client: Client
    user: int
    etag: str = ""
    unread: int = -1
    status: int = 0

    def poll(self) -> int:
        """Ask, and return the status."""
        response = self.client.get("/bell/", headers={"If-None-Match": self.etag} if self.etag else {})
        self.status, self.etag = response.status_code, response.headers.get("ETag", "")
        if self.status == 200:
            self.unread = response.json()["unread"]
        else:
            assert response.content == b""
        return self.status

    def post(self, path: str, body: Any = None) -> Any:
        """Post JSON, and return what comes."""
        response: Any = self.client.post(f"/bell/{path}", body or {}, content_type="application/json")
        assert response.status_code == 200
        return response.json()


@pytest.fixture
def tab(transactional_db: None) -> Callable[[], Tab]:  # noqa: ARG001  asked for its effect
    """Return a function that opens a tab of a user who is signed in; each time another user."""
    people = iter(range(1, 100))

    def opened() -> Tab:
        person = get_user_model().objects.create_user(f"kim{next(people)}")
        client = Client()
        client.force_login(person)
        return Tab(client=client, user=person.pk)

    return opened


@dataclass(kw_only=True)
class Cost:
    """What something has cost: calls, as Redis counts them, and whether PostgreSQL has begun any statement."""

    calls: int = 0
    asked_postgresql: bool = False


Costs = Callable[[], Any]


@pytest.fixture
def costs(valkey: redis.Redis, no_witness: None, other_connection: psycopg.Connection[Any]) -> Costs:  # noqa: ARG001  asked for its effect
    """Return a context manager that yields what its block costs."""

    def calls() -> int:
        told: Any = valkey.info("commandstats")
        return sum(told.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in CALLS)

    def statements() -> Any:
        other_connection.rollback()
        return other_connection.execute(STATEMENTS, [connection.settings_dict["NAME"]]).fetchone()

    @contextmanager
    def counted() -> Iterator[Cost]:
        cost = Cost()
        calls_before, before = calls(), statements()
        yield cost
        cost.calls, cost.asked_postgresql = calls() - calls_before, statements() != before

    return counted


def flushed() -> None:
    """Flush what waits; then Redis knows what PostgreSQL has, and may answer polls."""
    flush.flush_sealed()


def refused(response: Any) -> tuple[int, str]:
    """Return the status and the error of an answer."""
    return response.status_code, response.json()["error"]
