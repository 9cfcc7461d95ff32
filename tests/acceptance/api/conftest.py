"""A web process that the tests of a module share."""

from collections.abc import Iterator

import pytest

from tests.acceptance import web_process
from tests.acceptance.web_process import Shared


@pytest.fixture(scope="module")
def running_web(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:  # noqa: ARG001
    """Run a web process on the database of the tests until the last of them has ended."""
    log = tmp_path_factory.mktemp("web") / "web.log"
    with web_process.on_test_database(log) as url:
        yield Shared(url, log)


@pytest.fixture
def shared_web(transactional_db: None, running_web: Shared) -> Shared:  # noqa: ARG001  the database must come first
    """Return the web process; what its log had before the test does not count."""
    return running_web.from_now()
