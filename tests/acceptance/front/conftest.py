"""A web process, by the line of the Procfile and by uvicorn's own parsers."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.db import connection

from tests.acceptance import web_process
from tests.servers import database_url

NAME = "of-the-front"
PARSERS = {"the Procfile's": "", "httptools": "--http httptools", "h11": "--http h11"}
StartWeb = Callable[..., "Web"]


@dataclass(frozen=True, slots=True)
class Web:
    """A web process: its address and its log."""

    url: str
    log: Path


@pytest.fixture
def start_web(transactional_db: None, tmp_path: Path) -> Iterator[StartWeb]:  # noqa: ARG001  asked for its effect
    """Return a function that starts a web process on the database of the tests."""
    url = database_url(connection.settings_dict["NAME"])
    named = f"{url}{'&' if '?' in url else '?'}application_name={NAME}"
    with ExitStack() as stack:

        def start(options: str = "", **environment: str) -> Web:
            log = tmp_path / "web.log"
            running = web_process.on_test_database(log, options=options, **{"DATABASE_URL": named, **environment})
            return Web(stack.enter_context(running), log)

        yield start


@pytest.fixture
def other() -> Iterator[psycopg.Connection[Any]]:
    """Return a connection beside Django's."""
    with psycopg.connect(database_url(connection.settings_dict["NAME"])) as beside:
        yield beside


@pytest.fixture(params=list(PARSERS.values()), ids=list(PARSERS))
def parser(request: pytest.FixtureRequest) -> str:
    """Return the option by which uvicorn takes a parser of requests."""
    option: str = request.param
    return option
