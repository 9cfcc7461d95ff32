"""The tests of a team whose project uses Weir: they pass, and neither a broker nor Redis is asked."""

import os
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import hosts
from tests.run_python import run_forked
from tests.servers import database_url, redis_url

BOOKSHOP = Path(hosts.__file__).parent / "bookshop"
BY_PYTEST = ("-m", "pytest", "-c", os.devnull, "--rootdir=.", "--noconftest", "-p", "no:cacheprovider")

pytestmark = pytest.mark.usefixtures("embedded_servers")


@pytest.fixture
def nobody() -> Iterator[socket.socket]:
    """Return a server that takes connections, and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def was_asked(server: socket.socket) -> bool:
    server.setblocking(False)
    try:
        server.accept()
    except BlockingIOError:
        return False
    return True


def number_in(module: str) -> int:
    return len(re.findall(r"def test_", (BOOKSHOP / f"{module}.py").read_text()))


def run(*arguments: str, server: socket.socket | None, settings: str = "settings") -> str:
    """Run Python in the project; without a `server`, with the tests' own Redis."""
    url = redis_url() if server is None else f"redis://127.0.0.1:{server.getsockname()[1]}/0"
    return run_forked(
        *arguments,
        DATABASE_URL=database_url("bookshop"),
        REDIS_URL=url,
        DJANGO_SECRET_KEY="of a test",  # noqa: S106  no secret
        DJANGO_SETTINGS_MODULE=f"tests.hosts.{settings}",
    )


def test_they_pass_by_pytest(nobody: socket.socket) -> None:
    said = run(*BY_PYTEST, "--durations=5", str(BOOKSHOP / "by_pytest.py"), server=nobody)
    assert f"{number_in('by_pytest')} passed" in said
    assert not was_asked(nobody)


def test_they_pass_by_djangos_runner(nobody: socket.socket) -> None:
    """In two processes, with a copy of the database each; no check warns of what the runner itself has set."""
    said = run("manage.py", "test", "tests.hosts.bookshop.by_django", "--no-input", "--parallel=2", server=nobody)
    assert f"Ran {number_in('by_django')} tests" in said
    assert "weir." not in said
    assert not was_asked(nobody)


def test_they_pass_with_django_alone_where_tasks_run_at_once() -> None:
    """Redis is asked, and is there."""
    arguments = ("manage.py", "test", "tests.hosts.bookshop.plain", "--no-input")
    assert f"Ran {number_in('plain')} tests" in run(*arguments, server=None, settings="eager_settings")
