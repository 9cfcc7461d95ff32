"""Pages that anybody may ask for cannot be used to take the database's connections away."""

import http.client
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import psycopg
import pytest
from django.db import connection
from django.test import Client

from project.checkout import CHECKOUT
from tests.integration.conftest import Eventually
from tests.set_up import needs_own_sessions

AT_ONCE = 40


@pytest.fixture
def web(transactional_db: None, tmp_path: Any) -> Iterator[int]:  # noqa: ARG001  asked for its effect
    """Run the web process on the database of the tests; return its port."""
    with socket.create_server(("127.0.0.1", 0), backlog=2 * AT_ONCE) as listener:
        name, host = connection.settings_dict["NAME"], connection.settings_dict["HOST"]
        process = subprocess.Popen(
            [sys.executable, "-m", "uvicorn", "project.asgi:application", "--fd", str(listener.fileno())],
            cwd=CHECKOUT,
            env={
                **os.environ,
                "DATABASE_URL": f"postgresql://postgres@/{name}?host={host}&application_name=of-the-web-test",
                "DJANGO_SECRET_KEY": "a key of the tests",
            },
            pass_fds=[listener.fileno()],
            stderr=(tmp_path / "web.log").open("wb"),
        )
        yield listener.getsockname()[1]
        process.kill()
        process.wait()


def status(port: int, path: str) -> int:
    """Ask the web process for a page."""
    asking = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    asking.request("GET", path)
    return asking.getresponse().status


@needs_own_sessions
def test_many_checks_at_once_take_one_connection(
    web: int, other_connection: psycopg.Connection[Any], eventually: Eventually
) -> None:
    """While the database makes the first one wait, all others are answered, and none of them asks it."""
    assert status(web, "/livez") == 200
    other_connection.execute("LOCK TABLE weir_workers_heartbeat")
    with ThreadPoolExecutor(AT_ONCE) as pool:
        asked = [pool.submit(status, web, "/healthz") for _ in range(AT_ONCE)]
        try:
            eventually(lambda: sum(one.done() for one in asked) == AT_ONCE - 1, "all answers but one")
            assert status(web, "/livez") == 200
            sessions = other_connection.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'of-the-web-test'"
            ).fetchall()
        finally:
            other_connection.rollback()
    assert sessions == [(1,)]
    assert {one.result() for one in asked} == {200, 503}


def test_a_check_that_hangs_is_not_covered_by_an_earlier_answer(
    web: int, other_connection: psycopg.Connection[Any], eventually: Eventually
) -> None:
    """The database answered, and then hangs while one request asks it: soon the others are told so."""
    with ThreadPoolExecutor(AT_ONCE) as pool:

        def hangs() -> bool:
            return bool(wait([pool.submit(status, web, "/healthz")], timeout=0.3).not_done)

        assert status(web, "/healthz") == 200
        other_connection.execute("LOCK TABLE weir_workers_heartbeat")
        try:
            eventually(hangs, "a request that asks the database")
            assert status(web, "/healthz") == 200
            eventually(lambda: status(web, "/healthz") == 503, "an answer that says so", seconds=8)
        finally:
            other_connection.rollback()


def test_liveness_needs_no_database(client: Client) -> None:
    """A database that is away is no reason to restart the process; pytest-django fails a test that asks it unmarked."""
    assert client.get("/livez").json() == {"process": "ok"}
