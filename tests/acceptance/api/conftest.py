"""A web process that the tests of a module share."""

from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from django.db import connection

from tests.acceptance import web_process
from tests.acceptance.web_process import Shared
from tests.servers import database_url


@pytest.fixture(scope="module")
def running_web(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:  # noqa: ARG001
    """Run a web process on the database of the tests until the last of them has ended.

    It has a pool of sessions of PostgreSQL: to begin one costs more than to refuse a request.
    """
    log = tmp_path_factory.mktemp("web") / "web.log"
    parts = urlsplit(database_url(connection.settings_dict["NAME"]))
    pooled = parts._replace(query="&".join(filter(None, [parts.query, "pool=true"]))).geturl()
    with web_process.on_test_database(log, DATABASE_URL=pooled) as url:
        yield Shared(url, log)


@pytest.fixture
def shared_web(transactional_db: None, running_web: Shared) -> Shared:  # noqa: ARG001  the database must come first
    """Return the web process; what its log had before the test does not count."""
    return running_web.from_now()
