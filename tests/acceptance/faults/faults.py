"""The faults that can hit servers and processes, wherever they run, each as something that is wrong within a block."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial, wraps
from pathlib import Path
from typing import ParamSpec, Protocol

import psutil
import psycopg
import redis

from tests.own_servers import NAME
from tests.waiting import wait_for

Parameters = ParamSpec("Parameters")
TAKEN_WITHIN_S = 20.0
ROUNDS = 5  # sessions that were ended leave one after the other


@dataclass(frozen=True, kw_only=True)
class Fault:
    """Something that is wrong as long as the block of `happens` lasts."""

    name: str
    happens: Callable[[], AbstractContextManager[None]]
    lasts_s: float = 15.0
    path: str = ""  # of the pages that are asked for meanwhile, instead of small ones


class Target(Protocol):
    """Processes and servers that faults can hit."""

    @property
    def sockets(self) -> Path:
        """Return the folder of PostgreSQL's socket."""

    def pid(self, kind: str) -> int:
        """Return that of a process."""

    def broker(self) -> redis.Redis:
        """Return a client of the broker, which also has the unread numbers."""

    def postgres_processes(self) -> list[psutil.Process]:
        """Return PostgreSQL's processes, the first one first."""

    def query(self, *statements: str) -> None:
        """Let PostgreSQL do something, as `execute`."""


class KillableTarget(Target, Protocol):
    """One whose PostgreSQL can be killed."""

    def kill_postgres(self) -> None:
        """End it with SIGKILL."""

    def start_postgres(self) -> None:
        """Start it again, and wait until it answers."""


def fault(
    name: str, *, lasts_s: float = 15.0, path: str = ""
) -> Callable[[Callable[Parameters, Iterator[None]]], Callable[Parameters, Fault]]:
    """Make a function that returns a Fault of one that yields while something is wrong.

    `name` is formatted with the positional arguments: `{1}` is what follows the target.
    """

    def decorate(goes_wrong: Callable[Parameters, Iterator[None]]) -> Callable[Parameters, Fault]:
        happens = contextmanager(goes_wrong)

        @wraps(goes_wrong)
        def made(*arguments: Parameters.args, **options: Parameters.kwargs) -> Fault:
            return Fault(
                name=name.format(*arguments),
                happens=partial(happens, *arguments, **options),
                lasts_s=lasts_s,
                path=path,
            )

        return made

    return decorate


def execute(sockets: Path, *statements: str) -> None:
    """Let PostgreSQL do something as superuser, whatever its sessions may do by default."""
    with psycopg.connect(host=str(sockets), user="postgres", dbname=NAME, autocommit=True) as session:
        session.execute("SET default_transaction_read_only = off")
        for statement in statements:
            session.execute(statement.encode())


@contextmanager
def stopped(*processes: psutil.Process) -> Iterator[None]:
    """Stop processes, the first one first, and let them go on. Those that end meanwhile are left alone."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.suspend()
    try:
        yield
    finally:
        for process in reversed(processes):
            with suppress(psutil.NoSuchProcess):
                process.resume()


def with_children(pid: int) -> list[psutil.Process]:
    """Return a process, and all below it; none where it has ended."""
    with suppress(psutil.NoSuchProcess):
        first = psutil.Process(pid)
        return [first, *first.children(recursive=True)]
    return []


def valkey_process(target: Target) -> psutil.Process:
    """Return the broker's process."""
    with target.broker() as client:
        return psutil.Process(client.info("server")["process_id"])


@fault("{1} is frozen")
def frozen(target: Target, kind: str) -> Iterator[None]:
    """Freeze a process, with its children."""
    with stopped(*with_children(target.pid(kind))):
        yield


@fault("Redis is frozen")
def redis_frozen(target: Target) -> Iterator[None]:
    """Let nobody answer what the kernel takes for Redis."""
    with stopped(valkey_process(target)):
        yield


@fault("Redis is full")
def redis_full(target: Target) -> Iterator[None]:
    """Leave no room for anything in Redis."""
    with target.broker() as client:
        client.config_set("maxmemory", 1)
        try:
            yield
        finally:
            client.config_set("maxmemory", 0)


@fault("Redis is read-only")
def redis_read_only(target: Target) -> Iterator[None]:
    """Make Redis a replica of one that is not there, as after a fail-over."""
    with target.broker() as client:
        client.slaveof("127.0.0.1", 1)
        try:
            yield
        finally:
            client.slaveof()


@fault("PostgreSQL is frozen")
def postgres_frozen(target: Target) -> Iterator[None]:
    """Freeze all of PostgreSQL's processes."""
    with stopped(*target.postgres_processes()):
        yield


@fault("PostgreSQL killed (SIGKILL)")
def postgres_killed(target: KillableTarget) -> Iterator[None]:
    """End PostgreSQL, and start it again."""
    target.kill_postgres()
    try:
        yield
    finally:
        target.start_postgres()


@fault("PostgreSQL is read-only")
def postgres_read_only(target: Target) -> Iterator[None]:
    """Make new transactions of all sessions read-only."""
    reload = "SELECT pg_reload_conf()"
    target.query("ALTER SYSTEM SET default_transaction_read_only = on", reload)
    try:
        yield
    finally:
        target.query("ALTER SYSTEM RESET default_transaction_read_only", reload)


@fault("connections are used up", lasts_s=20)
def connections_used_up(target: Target) -> Iterator[None]:
    """Take all connections, also those that the processes had, and those for superusers."""
    with ExitStack() as taken:

        def none_is_left() -> bool:
            try:
                while True:
                    session = psycopg.connect(host=str(target.sockets), user="postgres", dbname=NAME)
                    taken.callback(session.close)
            except psycopg.OperationalError as error:  # perhaps PostgreSQL recovers
                return "too many clients" in str(error)

        target.query(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )
        for _ in range(ROUNDS):
            wait_for(none_is_left, TAKEN_WITHIN_S, "all connections to be taken")
        yield
