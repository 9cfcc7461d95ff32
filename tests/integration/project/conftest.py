"""Weir's own processes, by the Procfile's exact lines, on a broker that a test may harm; and manage.py in forks."""

import os
import re
import signal
import socketserver
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import redis
from django.db import connection

from project.processes.procfile import lines
from tests.forked import Forked
from tests.home import HOME
from tests.run_python import forked
from tests.servers import database_url

Told = subprocess.CompletedProcess[str]
Manage = Callable[..., Told]


@dataclass(kw_only=True)
class Procfile:
    """Starts processes of the Procfile, on the database of the tests; with a `broker` of their own."""

    folder: Path
    broker: Any
    environment: dict[str, str]
    started: list[Forked] = field(default_factory=list)

    def start(self, name: str, *, log: str = "", also: str = "", **environment: str) -> Forked:
        """Start a process as the Procfile names it, with a queue `also`; what it writes goes to the log of its name."""
        variables = {**self.environment, **environment}
        line = lines()[name].replace("--queues ", f"--queues {also}," if also else "--queues ")
        words = re.sub(r"\$\{(\w+):-([^}]*)\}", lambda found: variables.get(found[1]) or found[2], line).split()
        with self.log(log or name).open("wb") as output:
            process = Forked("-m", *words, environment=variables, output=output, start_new_session=True)
        self.started.append(process)
        return process

    def log(self, name: str) -> Path:
        """Return the file that a process writes to."""
        return self.folder / f"{name}.log"

    def said(self, name: str) -> str:
        """Return all that a process has written until now."""
        return self.log(name).read_text(errors="replace")

    def stop(self) -> None:
        """Kill what still runs, with its children: no test is of what they would do at the end."""
        for process in self.started:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.fixture
def procfile(transactional_db: None, own_broker: redis.Redis, tmp_path: Path) -> Iterator[Procfile]:  # noqa: ARG001
    """Return what starts processes of the Procfile, on the database of the tests and the broker of this test."""
    socket = own_broker.connection_pool.connection_kwargs["path"]
    made = Procfile(
        folder=tmp_path,
        broker=own_broker,
        environment={
            **os.environ,
            "DATABASE_URL": database_url(connection.settings_dict["NAME"]),
            "REDIS_URL": f"unix://{socket}",
            "DJANGO_SECRET_KEY": "a key of the tests",
        },
    )
    yield made
    made.stop()


def environment(**variables: str | Path) -> dict[str, str]:
    """Return the environment of a process that is told of no server but these."""
    clean = dict.fromkeys(("DATABASE_URL", "REDIS_URL", "CELERY_BROKER_URL", "DJANGO_DEBUG"), "")
    given = {name: str(text) for name, text in variables.items()}
    return {**os.environ, "WEIR_HOME": str(HOME), **clean, **given}


@pytest.fixture
def manage() -> Manage:
    """Return what runs manage.py with these arguments, in a process and an environment of its own."""

    def run(*arguments: str, **variables: str | Path) -> Told:
        return forked("manage.py", *arguments, environment=environment(**variables))

    return run


class RefusesPasswords(socketserver.BaseRequestHandler):
    """A PostgreSQL that asks for the password in clear, and repeats it in its refusal."""

    def handle(self) -> None:
        request = self.request.recv(1_024)
        if b"\x04\xd2\x16/" in request or b"\x04\xd2\x160" in request:  # wants TLS or GSSAPI
            self.request.sendall(b"N")
            request = self.request.recv(1_024)
        self.request.sendall(b"R" + (8).to_bytes(4, "big") + (3).to_bytes(4, "big"))
        password = self.request.recv(1_024)[5:-1]
        fields = b"SFATAL\0VFATAL\0C28P01\0M" + self.server.words % password + b"\0\0"  # type: ignore[attr-defined]
        self.request.sendall(b"E" + (len(fields) + 4).to_bytes(4, "big") + fields)


@contextmanager
def serving(handler: type[socketserver.BaseRequestHandler], words: bytes = b"") -> Iterator[int]:
    """Serve on a port of the loopback address until the end."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        server.words = words  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
