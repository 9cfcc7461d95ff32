"""Starts, shares and stops the embedded servers of one home."""

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from project.checkout import CHECKOUT
from project.embedded.daemon import Daemon
from project.embedded.ownership import RUNNING, STARTING, STOPPING, own_or_wait, read_state, try_to_own, write_state
from project.embedded.places import EmbeddedError
from project.embedded.postgres import postgres_daemon, postgres_folder, postgres_socket_dir
from project.embedded.valkey import valkey_daemon, valkey_socket


@dataclass(frozen=True, kw_only=True)
class EmbeddedServers:
    """Where the running servers are; ``owner`` tells whether this process owns the servers, and will stop them."""

    postgres_socket_dir: Path
    valkey_socket: Path
    postgres_pid: int | None
    valkey_pid: int | None
    owner: bool


def home() -> Path:
    """Return the folder of this checkout's servers: WEIR_HOME (relative to the checkout), or ``.weir``."""
    return (CHECKOUT / Path(os.environ.get("WEIR_HOME") or ".weir").expanduser()).resolve()


def not_running_hint() -> str:
    """Return the sentence for a user whose embedded server does not run."""
    return "PostgreSQL is not running: start it with `make up`, or set DATABASE_URL to a server of your own."


@contextmanager
def servers(
    home: Path, *, postgres: bool = True, valkey: bool = True, durable: bool = True
) -> Iterator[EmbeddedServers]:
    """Provide the servers of ``home``, with the database created, for as long as the context lasts.

    1. Take the lock of the home. The process that gets it is the owner until the context ends, with an error or not.
    2. The owner adopts servers that already run with the wanted settings, starts the others, creates the database,
       yields, and stops all servers.
    3. A process that does not get the lock is a guest: it yields once the servers answer. If the owner ends before
       that, the guest becomes the owner.

    ``kill -9`` of the owner leaves the servers running; the next owner adopts them. SIGTERM does the same unless the
    caller turns it into an exception. A child that the owner forks without exec keeps the lock when the owner is gone.
    ``durable=False`` is for data that may be lost: PostgreSQL runs without fsync, Valkey without its append-only file.
    Raises EmbeddedError if a server cannot be provided.
    """
    home = home.resolve()
    server = postgres_daemon(home, durable) if postgres else None
    buffer = valkey_daemon(home, durable) if valkey else None
    daemons = [daemon for daemon in (server, buffer) if daemon]
    with ExitStack() as at_exit:
        lock = own_or_wait(home, daemons)
        if lock is not None:
            at_exit.callback(os.close, lock)
            write_state(lock, STARTING)
            for daemon in daemons:
                at_exit.callback(daemon.stop)
                _ensure_running(daemon)
            at_exit.callback(write_state, lock, STOPPING)
            write_state(lock, RUNNING)
        yield EmbeddedServers(
            postgres_socket_dir=postgres_socket_dir(home),
            valkey_socket=valkey_socket(home),
            postgres_pid=server.pid() if server else None,
            valkey_pid=buffer.pid() if buffer else None,
            owner=lock is not None,
        )


def discard(home: Path) -> None:
    """Delete a home, and its data outside the home. Raises EmbeddedError while a process owns the home."""
    home = home.resolve()
    lock = try_to_own(home)
    if lock is None:
        raise EmbeddedError(f"{home} is in use ({read_state(home)}): stop that process before deleting it.")
    try:
        for daemon in (postgres_daemon(home, durable=False), valkey_daemon(home, durable=False)):
            daemon.stop()
        for folder in (postgres_folder(home), postgres_socket_dir(home), valkey_socket(home).parent, home):
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(lock)


def _ensure_running(daemon: Daemon) -> None:
    """Make sure that a server runs. Raises EmbeddedError, also for an OSError."""
    try:
        daemon.ensure_running()
    except OSError as error:
        raise EmbeddedError(f"{daemon.name} cannot be set up ({error}): solve that and start again.") from error
