"""The faults that can hit processes and servers, each as something that is wrong within a block."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import psycopg
import pytest
import redis

from demo.fakes.distance import Distance
from project import embedded
from tests.acceptance.conftest import Cluster
from tests.acceptance.faults.load import Load
from tests.own_servers import NAME, Server
from tests.waiting import wait_for

PAGE = 4096  # bytes: not even one is left where a disk is full


@dataclass(frozen=True, kw_only=True)
class Fault:
    """Something that is wrong as long as the block of `happens` lasts, which is `lasts_s`."""

    name: str
    happens: Callable[[], AbstractContextManager[object]]
    lasts_s: float = 15.0


@dataclass(frozen=True, kw_only=True)
class Host:
    """The servers, and the processes that use them."""

    load: Load
    server: Server
    disk: Path  # a small file system, of PostgreSQL alone
    lines: tuple[Distance, Distance] | None = None  # to PostgreSQL and the broker

    def valkey(self) -> redis.Redis:
        """Return a client of the broker, which also has the unread numbers."""
        return redis.Redis(unix_socket_path=str(embedded.valkey_socket(self.load.cluster.broker_home)))


@contextmanager
def disk_full(host: Host) -> Iterator[None]:
    """Fill PostgreSQL's file system, and free it again; PostgreSQL may have ended, and is started then."""
    filler = host.disk / "filler"
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(b"\0" * PAGE):
            pass
    with pytest.raises(psycopg.errors.DiskFull):
        host.server.query("CREATE TABLE page AS SELECT repeat(n::text, 9) FROM generate_series(1, 9999) AS n")
    try:
        yield
    finally:
        filler.unlink()
        if host.server.process and host.server.process.poll() is not None:
            host.load.restarts.append("PostgreSQL ended")
            host.server.kill()
            host.server.start()


@contextmanager
def connections_used_up(host: Host) -> Iterator[None]:
    """Take all connections, also those that the processes had, and those for superusers."""
    with ExitStack() as taken:

        def take() -> None:
            with suppress(psycopg.OperationalError):
                while True:
                    taken.enter_context(psycopg.connect(host=str(host.server.folder), user="postgres", dbname=NAME))

        own = taken.enter_context(
            psycopg.connect(host=str(host.server.folder), user="postgres", dbname=NAME, autocommit=True)
        )
        own.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
        for _ in range(5):
            take()
        assert not host.server.answers()
        yield


@contextmanager
def postgres_read_only(host: Host) -> Iterator[None]:
    """Have new transactions of all sessions be able to read only."""
    reload = "SELECT pg_reload_conf()"
    for statement in ("ALTER SYSTEM SET default_transaction_read_only = on", reload):
        host.server.query(statement)
    try:
        yield
    finally:
        with psycopg.connect(host=str(host.server.folder), user="postgres", dbname=NAME, autocommit=True) as session:
            session.execute("SET default_transaction_read_only = off")
            session.execute("ALTER SYSTEM RESET default_transaction_read_only")
            session.execute(reload.encode())


@contextmanager
def postgres_killed(host: Host) -> Iterator[None]:
    """End PostgreSQL with SIGKILL, and start it again."""
    host.server.kill()
    try:
        yield
    finally:
        host.server.start()


@contextmanager
def redis_full(host: Host) -> Iterator[None]:
    """Have no room for anything in Redis."""
    with host.valkey() as client:
        client.config_set("maxmemory", 1)
        try:
            yield
        finally:
            client.config_set("maxmemory", 0)


@contextmanager
def stopped(*processes: psutil.Process) -> Iterator[None]:
    """Stop processes, the first one first, and have them go on."""
    for process in processes:
        process.suspend()
    try:
        yield
    finally:
        for process in reversed(processes):
            with suppress(psutil.NoSuchProcess):
                process.resume()


def with_children(pid: int) -> list[psutil.Process]:
    """Return a process, and all below it."""
    first = psutil.Process(pid)
    return [first, *first.children(recursive=True)]


def frozen(host: Host, kind: str) -> Fault:
    """Freeze a process of each kind, with its children."""
    name = next(name for name in host.load.cluster.processes if name.partition("-")[0] == kind)
    return Fault(
        name=f"{kind} is frozen",
        happens=lambda: stopped(*with_children(host.load.cluster.processes[name].pid)),
    )


def frozen_valkey(host: Host) -> AbstractContextManager[None]:
    """Freeze Redis: the kernel takes what is sent to it, and nobody answers."""
    with host.valkey() as client:
        return stopped(psutil.Process(client.info("server")["process_id"]))


@contextmanager
def killed_for_memory(host: Host, name: str, *, child: bool) -> Iterator[None]:
    """Do what the kernel does where memory is short: SIGKILL to a process, or to one of its pool, that is at work."""
    pid = host.load.cluster.processes[name].pid
    if child:
        wait_for(lambda: psutil.Process(pid).children(), 10, f"children of {name}")
        pid = psutil.Process(pid).children()[0].pid
    os.kill(pid, signal.SIGKILL)
    yield


@contextmanager
def hung(line: Distance) -> Iterator[None]:
    """Have a line take what is sent, and hand over nothing."""
    line.hangs = True
    try:
        yield
    finally:
        line.hangs = False


@contextmanager
def slow(lines: tuple[Distance, ...], round_trip_s: float, lost_share: float) -> Iterator[None]:
    """Have servers be far away, and packets be lost."""
    for line in lines:
        line.round_trip_s, line.lost_share = round_trip_s, lost_share
    try:
        yield
    finally:
        for line in lines:
            line.round_trip_s, line.lost_share = 0.0, 0.0
        print("packets lost:", [line.lost for line in lines])


@contextmanager
def everything_stopped(cluster: Cluster, server: Server) -> Iterator[None]:
    """Stop all processes, and both servers, as a suspended machine does."""
    assert server.process
    with redis.Redis(unix_socket_path=str(embedded.valkey_socket(cluster.broker_home))) as client:
        valkey = psutil.Process(client.info("server")["process_id"])
    pids = [*(process.pid for process in cluster.processes.values()), server.process.pid]
    with stopped(valkey, *(process for pid in pids for process in with_children(pid))):
        yield
