"""The servers and all processes on one host, and the faults of its disk, its memory and its lines."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import psycopg
import pytest
import redis

from demo.fakes.distance import Distance
from project import embedded
from tests.acceptance.faults import faults
from tests.acceptance.faults.faults import fault
from tests.acceptance.faults.load import Load
from tests.own_servers import Server
from tests.waiting import wait_for

PAGE = 4096  # bytes: not even one is left where a disk is full


@dataclass(frozen=True, kw_only=True)
class Host:
    """The servers, and the processes that use them."""

    load: Load
    server: Server
    disk: Path | None = None  # a small file system, of PostgreSQL alone
    lines: dict[str, Distance] = field(default_factory=dict)  # to "PostgreSQL" and the "broker"

    @property
    def sockets(self) -> Path:
        """Return the folder of PostgreSQL's socket."""
        return self.server.folder

    def pid(self, kind: str) -> int:
        """Return that of a process, by its name, or of one of its kind."""
        processes = self.load.cluster.processes
        return next(process.pid for name, process in processes.items() if kind in {name, name.partition("-")[0]})

    def broker(self) -> redis.Redis:
        """Return a client of the broker, which also has the unread numbers."""
        return redis.Redis(unix_socket_path=str(embedded.valkey_socket(self.load.cluster.broker_home)))

    def postgres_processes(self) -> list[psutil.Process]:
        """Return PostgreSQL's processes, the first one first."""
        return self.server._processes()

    def query(self, *statements: str) -> None:
        """Let PostgreSQL do something, whatever its sessions may do by default."""
        faults.execute(self.sockets, *statements)

    def kill_postgres(self) -> None:
        """End it with SIGKILL."""
        self.server.kill()

    def start_postgres(self) -> None:
        """Start it again, and wait until it answers."""
        self.server.start()


@fault("disk of PostgreSQL is full")
def disk_full(host: Host) -> Iterator[None]:
    """Fill PostgreSQL's file system, and free it again; PostgreSQL may have ended, and is started then."""
    assert host.disk
    filler = host.disk / "filler"
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(b"\0" * PAGE):
            pass
    with pytest.raises(psycopg.errors.DiskFull):
        host.query("CREATE TABLE page AS SELECT repeat(n::text, 9) FROM generate_series(1, 9999) AS n")
    try:
        yield
    finally:
        filler.unlink()
        if host.server.process and host.server.process.poll() is not None:
            host.load.restarts.append("PostgreSQL ended")
            host.kill_postgres()
            host.start_postgres()


@fault("{1} killed (as by OOM)", lasts_s=5)
def killed_for_memory(host: Host, name: str) -> Iterator[None]:
    """Do what the kernel does where memory is short: SIGKILL to a process."""
    os.kill(host.pid(name), signal.SIGKILL)
    yield


@fault("a child of {1} killed (as by OOM)", lasts_s=5)
def child_killed_for_memory(host: Host, name: str) -> Iterator[None]:
    """Kill a process of a pool that is at work, as the kernel may choose it."""
    first = psutil.Process(host.pid(name))
    wait_for(first.children, 10, f"children of {name}")
    first.children()[0].kill()
    yield


@fault("{1} hangs half-open", lasts_s=20)
def hung(host: Host, server: str) -> Iterator[None]:
    """Let the line to a server take what is sent, and hand over nothing."""
    line = host.lines[server]
    line.hangs = True
    try:
        yield
    finally:
        line.hangs = False


@fault("200 ms delay, 1 % loss to both", lasts_s=30)
def slow(host: Host) -> Iterator[None]:
    """Move servers far away, and lose packets."""
    lines = host.lines.values()
    for line in lines:
        line.round_trip_s, line.lost_share = 0.2, 0.01
    try:
        yield
    finally:
        for line in lines:
            line.round_trip_s, line.lost_share = 0.0, 0.0
        print("packets lost:", [line.lost for line in lines])


@contextmanager
def everything_stopped(host: Host) -> Iterator[None]:
    """Stop all processes, and both servers, as a suspended machine does."""
    assert host.server.process
    pids = [*(process.pid for process in host.load.cluster.processes.values()), host.server.process.pid]
    valkey = faults.valkey_process(host)
    with faults.stopped(valkey, *(process for pid in pids for process in faults.with_children(pid))):
        yield
