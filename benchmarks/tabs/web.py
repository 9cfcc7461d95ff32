"""The web process of the Procfile, alone or beside those that fetch."""

import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from benchmarks.tabs.polling import HOST
from project.celery import app
from project.processes import procfile

SERVER = "uvicorn"


@dataclass(frozen=True, kw_only=True, slots=True)
class Web:
    """The web process, and the port on which it listens."""

    port: int
    pids: list[int]


@contextmanager
def running(log: Path, others: Mapping[str, int]) -> Iterator[Web]:
    """Run it, and the given numbers of other processes; all of them answer when the block is entered."""
    port = _free_port()
    with procfile.running({**os.environ, "PORT": str(port)}, counts={"web": 1, **others}, log=log) as weir:
        weir.wait_until(lambda: procfile.web_answers(HOST, port), "the web process does not answer")
        if weir.workers:
            weir.wait_until(lambda: procfile.workers_answer(app, weir.workers), "the workers do not answer")
        yield Web(port=port, pids=[pid for pid in weir.pids() if _is_server(pid)])


def _is_server(pid: int) -> bool:
    # Not the shell by which honcho starts it.
    words = psutil.Process(pid).cmdline()
    return any(Path(word).name == SERVER for word in words[:2])


def _free_port() -> int:
    with socket.create_server((HOST, 0)) as server:
        return int(server.getsockname()[1])
