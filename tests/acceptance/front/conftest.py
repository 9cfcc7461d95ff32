"""Web processes, started as in the Procfile, with each of uvicorn's parsers: the tests of this folder share them."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import psycopg
import pytest
from django.db import connection

from tests.acceptance import web_process
from tests.acceptance.web_process import Shared
from tests.servers import database_url
from tests.waiting import wait_for

NAME = "of-the-front"
BUSY = "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s AND state <> 'idle'"
PARSERS = {"the Procfile's": "", "httptools": "--http httptools", "h11": "--http h11"}
StartWeb = Callable[..., Shared]


@pytest.fixture(scope="package")
def begin_web(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartWeb]:  # noqa: ARG001
    """Return a function that starts a web process on the database of the tests; it ends with the last test."""
    folder = tmp_path_factory.mktemp("webs")
    with ExitStack() as stack:

        def begin(options: str = "", **environment: str) -> Shared:
            url = database_url(connection.settings_dict["NAME"])
            named = f"{url}{'&' if '?' in url else '?'}application_name={NAME}"
            log = folder / f"web-{len(list(folder.iterdir()))}.log"
            running = web_process.on_test_database(log, options=options, **{"DATABASE_URL": named, **environment})
            return Shared(stack.enter_context(running), log)

        yield begin


@pytest.fixture(scope="package")
def begun() -> dict[tuple[str, ...], Shared]:
    """Return the web processes that the tests share, by their options and variables."""
    return {}


@pytest.fixture
def start_web(
    transactional_db: None,  # noqa: ARG001  asked for its effect
    begin_web: StartWeb,
    begun: dict[tuple[str, ...], Shared],
) -> Iterator[StartWeb]:
    """Return a function that runs a web process on the database of the tests: one that an earlier test used, if any.

    After the test, no process has a request at work any more.
    """

    def start(options: str = "", **environment: str) -> Shared:
        key = (options, *(word for pair in sorted(environment.items()) for word in pair))
        if key not in begun:
            begun[key] = begin_web(options, **environment)
        return begun[key].from_now()

    yield start
    with connection.cursor() as cursor:

        def is_idle() -> bool:
            cursor.execute(BUSY, [NAME])
            return bool(cursor.fetchone() == (0,))

        wait_for(is_idle, 20, "the end of all requests")


@pytest.fixture
def start_fresh(transactional_db: None, begin_web: StartWeb) -> StartWeb:  # noqa: ARG001  asked for its effect
    """Return a function that starts a web process for this test alone: for one that is measured, or ended."""
    return begin_web


@pytest.fixture
def other() -> Iterator[psycopg.Connection[Any]]:
    """Return a connection beside Django's."""
    with psycopg.connect(database_url(connection.settings_dict["NAME"])) as beside:
        yield beside


@pytest.fixture(params=list(PARSERS.values()), ids=list(PARSERS))
def parser(request: pytest.FixtureRequest) -> str:
    """Return the option that makes uvicorn use a parser of requests."""
    option: str = request.param
    return option
