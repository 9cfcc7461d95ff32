"""A web process that the tests of a module share."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.acceptance import web_process


@dataclass(frozen=True, slots=True)
class Shared:
    """The web process: its address, its log, and how much of that was there before the test."""

    url: str
    log: Path
    before: int = 0

    def logged(self) -> str:
        """Return what it has logged since the test began."""
        return self.log.read_bytes()[self.before :].decode()


@pytest.fixture(scope="module")
def running_web(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:  # noqa: ARG001
    """Run a web process on the database of the tests until the last of them has ended."""
    log = tmp_path_factory.mktemp("web") / "web.log"
    with web_process.on_test_database(log) as url:
        yield Shared(url, log)


@pytest.fixture
def shared_web(transactional_db: None, running_web: Shared) -> Shared:  # noqa: ARG001  the database must come first
    """Return the web process; what its log had before is no matter of the test."""
    return Shared(running_web.url, running_web.log, running_web.log.stat().st_size)
