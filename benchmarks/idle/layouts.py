"""The processes of a layout, started by their lines, and what each kind of them costs."""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import psutil
from django.conf import settings

from benchmarks.fetches import cpu
from project import embedded
from project.celery import app
from project.processes import procfile

SETTLED_S = 20.0  # after this time, the start has no effect any more
MEASURED_S = 60.0
PORT = 8765
_MB = 2**20


class Cost(NamedTuple):
    """What the processes of a kind take."""

    processor: float  # of one
    memory_mb: float


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Processes that run: the id of the first of each kind, whose children count with it."""

    pids: Mapping[str, int]

    def costs(self) -> dict[str, Cost]:
        """Wait until the start has no effect any more, and return what each kind takes over a minute."""
        time.sleep(SETTLED_S)
        before, began = self._used_s(), time.monotonic()
        time.sleep(MEASURED_S)
        after, lasted_s = self._used_s(), time.monotonic() - began
        return {kind: Cost((after[kind] - before[kind]) / lasted_s, _memory_mb(pid)) for kind, pid in self.pids.items()}

    def _used_s(self) -> dict[str, float]:
        return {kind: cpu.used_s([pid]) for kind, pid in self.pids.items()}


@contextmanager
def running(kinds: Sequence[str], log: Path, environment: Mapping[str, str]) -> Iterator[Layout]:
    """Run one process of each kind, which writes to `log`; all answer when the block is entered."""
    env = {**os.environ, **environment, "PORT": str(PORT)}
    with (
        embedded.servers(settings.EMBEDDED_HOME) as servers,
        procfile.running(env, counts=dict.fromkeys(kinds, 1), log=log) as weir,
    ):
        weir.wait_until(lambda: procfile.workers_answer(app, weir.workers), "the workers do not answer")
        weir.wait_until(lambda: procfile.web_answers("127.0.0.1", PORT), "the web process does not answer")
        own = {kind: _pid_of(kind, weir.pids()) for kind in kinds}
        of_servers = {"postgresql": servers.postgres_pid, "valkey": servers.valkey_pid}
        yield Layout(pids={**own, **{name: pid for name, pid in of_servers.items() if pid is not None}})


def _pid_of(kind: str, pids: Sequence[int]) -> int:
    """Return the process of this kind: honcho tells a process the name of its kind by a variable."""
    named = [pid for pid in pids if psutil.Process(pid).environ().get("HONCHO_PROCESS_NAME") == f"{kind}.1"]
    return min(named)


def _memory_mb(pid: int) -> float:
    root = psutil.Process(pid)
    return sum(process.memory_full_info().pss for process in (root, *root.children(recursive=True))) / _MB
