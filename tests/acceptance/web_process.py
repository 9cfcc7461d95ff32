"""The web process by its line of the Procfile, of a cluster or on the test database; and commands of a cluster."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from django.conf import settings
from django.db import connection

from demo.fakes.children import die_with_parent
from project.checkout import CHECKOUT
from project.processes.procfile import lines, web_answers
from tests.acceptance.conftest import Cluster
from tests.canaries import files_with_urls
from tests.forked import Forked
from tests.servers import database_url, redis_url
from tests.valkeys import free_port
from tests.waiting import wait_for

HOST = "127.0.0.1"
ENDS_WITHIN_S = 10
MANAGE = (CHECKOUT / "manage.py").read_text()


@dataclass(frozen=True, slots=True)
class Shared:
    """A web process that tests share: its address, its log, and how much of that was there before the test."""

    url: str
    log: Path
    before: int = 0

    def from_now(self) -> "Shared":
        """Return the same process, as one whose log begins now."""
        return replace(self, before=self.log.stat().st_size)

    def logged(self) -> str:
        """Return what it has logged since the test began."""
        return self.log.read_bytes()[self.before :].decode()


def start(cluster: Cluster, name: str, *, within: Sequence[str] = (), port: int = 0) -> str:
    """Start a web process as the Procfile does, on a free port unless one is given; returns its address, such as http://127.0.0.1:8000.

    `within` is a command to which that is handed.
    """
    with cluster.log(name).open("wb") as output:
        if within:
            cluster.processes[name] = _within(within, cluster.environment, output)
        else:
            cluster.processes[name] = forked(port, cluster.environment, output, start_new_session=True)

    def url() -> str:
        found = re.search(r"Uvicorn running on (http://[\d.]+:\d+)", cluster.log(name).read_text())
        return found[1] if found else ""

    wait_for(url, 30, f"{name}: {cluster.log(name)}")
    return url()


def _within(within: Sequence[str], environment: Mapping[str, str], output: IO[bytes]) -> "subprocess.Popen[bytes]":
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.Popen(
        [*within, "/bin/sh", "-c", f"exec {_line()}"],
        cwd=CHECKOUT,
        env={**environment, "PORT": "0", "PATH": path},
        stdout=output,
        stderr=output,
        start_new_session=True,
        preexec_fn=die_with_parent,  # noqa: PLW1509 -- no other thread runs here
    )


def forked(
    port: int, environment: Mapping[str, str], output: IO[bytes], *, options: str = "", start_new_session: bool = False
) -> Forked:
    """Start a web process in less time: as a fork of one that has imported what it needs (tests/forked.py)."""
    line = _line().replace("${HOST:-127.0.0.1}", HOST).replace("${PORT:-8000}", str(port))
    return Forked(
        "-m",
        *shlex.split(f"{line} {options}"),
        environment=environment,
        output=output,
        start_new_session=start_new_session,
        of_weir=True,
    )


@contextmanager
def on_test_database(log: Path, *, options: str = "", **environment: str) -> Iterator[str]:
    """Run a web process with the database and the Redis of this process; yields its address."""
    port = free_port()
    its = {
        **os.environ,
        "DATABASE_URL": database_url(connection.settings_dict["NAME"]),
        "REDIS_URL": redis_url(),
        "DJANGO_SECRET_KEY": settings.SECRET_KEY,
        "SKIP_CHECKS": "1",
        **environment,
    }
    with log.open("wb") as output:
        process = forked(port, its, output, options=options)
    try:
        wait_for(lambda: web_answers(HOST, port), 60, f"the web process: {log}")
        yield f"http://{HOST}:{port}"
    finally:
        process.terminate()
        try:
            process.wait(ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
    found = files_with_urls([log])
    assert not found, found[:3]


def _line() -> str:
    return lines()["web"]


def manage(cluster: Cluster, *arguments: str, **environment: str) -> str:
    """Run a command of manage.py as the cluster's processes run; returns what it writes. Raises CalledProcessError."""
    variables = {**cluster.environment, **environment}
    with TemporaryFile() as errors:
        command = Forked("-c", MANAGE, *arguments, environment=variables, errors=errors, of_weir=True)
        written, _ = command.communicate()
        errors.seek(0)
        said = errors.read().decode()
    if command.returncode:
        raise subprocess.CalledProcessError(command.returncode, ["manage.py", *arguments], written, said)
    return written


def answer(url: str, shown: str = "", method: str = "GET") -> tuple[int, str]:
    """Return the status and the body of an answer; `shown` is the token."""
    headers = {"Authorization": f"Bearer {shown}"} if shown else {}
    try:
        with urlopen(Request(url, headers=headers, method=method), timeout=30) as found:  # noqa: S310
            return found.status, found.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()
