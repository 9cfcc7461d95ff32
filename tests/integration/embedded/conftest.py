"""What the tests of the embedded servers need: homes of their own, and processes that own them.

They start real servers, and kill only processes that they started.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest
import redis

from project import embedded
from project.checkout import CHECKOUT
from project.embedded import EmbeddedServers, postgres
from project.embedded.places import Account

ROOT = os.geteuid() == 0

# What `make up` does, in one process: own the home until the standard input ends.
OWNER = """
import pathlib, signal, sys
from project import embedded
from project.embedded import postgres
postgres._SHARED = pathlib.Path(sys.argv[2])
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has its background jobs ignore it
with embedded.servers(pathlib.Path(sys.argv[1])) as running:
    print(running.postgres_pid, running.valkey_pid, "owner" if running.owner else "guest", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(scope="module")
def open_folder() -> Iterator[Path]:
    """Return a folder that all users may pass, unlike those of pytest."""
    folder = Path(tempfile.mkdtemp(prefix="weir-test-"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module", autouse=True)
def shared(open_folder: Path) -> Iterator[Path]:
    """Return the folder for what `nobody` must reach, in place of the real one in /var/lib."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(postgres, "_SHARED", open_folder / "shared")
        yield open_folder / "shared"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, shared: Path) -> Iterator[Path]:  # noqa: ARG001 -- is first
    """Return a home whose database exists; every test leaves it whole and stopped.

    What makes it does not sync it to disk: the servers of a durable home do.
    """
    folder = tmp_path_factory.mktemp("checkout") / ".weir"
    with embedded.servers(folder, valkey=False, durable=False):
        pass
    yield folder
    embedded.discard(folder)


@pytest.fixture
def new_home(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "checkout" / ".weir"
    embedded.discard(tmp_path / "checkout" / ".weir")


@contextmanager
def owner_process(home: Path, shared: Path) -> Iterator[subprocess.Popen[str]]:
    """Run an owner (or guest) in a session of its own, as a terminal would; kill it if the test has not."""
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, home, shared],
        cwd=CHECKOUT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def bystander(account: Account) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process that is not one of the servers."""
    with subprocess.Popen(["sleep", "60"], **account.switch()) as process:
        try:
            yield process
        finally:
            process.kill()


def report(process: subprocess.Popen[str]) -> tuple[int, int, str]:
    """Return the servers' pids and whether the process owns them, once it has them."""
    assert process.stdout
    postgres_pid, valkey_pid, role = process.stdout.readline().split()
    return int(postgres_pid), int(valkey_pid), role


def runs(*pids: int | None) -> bool:
    return all(pid and psutil.pid_exists(pid) and psutil.Process(pid).status() != "zombie" for pid in pids)


def sql(running: EmbeddedServers, statement: str) -> Any:
    host = str(running.postgres_socket_dir)
    with psycopg.connect(host=host, dbname=embedded.DATABASE_NAME, user=embedded.DATABASE_USER) as connection:
        cursor = connection.execute(statement)
        return cursor.fetchone() if cursor.description else None


def valkey(running: EmbeddedServers) -> "redis.Redis":
    return redis.Redis(unix_socket_path=str(running.valkey_socket), decode_responses=True)


def data_folder(home: Path) -> Path:
    return postgres.postgres_folder(home) / "data"


@contextmanager
def content(path: Path, text: str) -> Iterator[None]:
    """Replace the text of a file until the block ends."""
    before = path.read_text()
    path.write_text(text)
    try:
        yield
    finally:
        path.write_text(before)


def modes(path: Path) -> dict[Path, tuple[int, int]]:
    return {step: (step.stat().st_mode, step.stat().st_uid) for step in (path, *path.parents)}
