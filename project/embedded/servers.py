"""Starts, shares and stops the embedded servers of one home."""

import os
import shutil
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from project.checkout import CHECKOUT
from project.embedded.daemon import Daemon
from project.embedded.ownership import RUNNING, STARTING, STOPPING, own_or_wait, read_state, try_to_own, write_state
from project.embedded.places import EmbeddedError
from project.embedded.postgres import postgres_daemon, postgres_folder, postgres_socket_dir
from project.embedded.valkey import valkey_daemon, valkey_socket

MOST_ENDS = 3  # of one server within ENDS_WITHIN_S: to start it once more would not help
ENDS_WITHIN_S = 60.0


@dataclass(frozen=True, kw_only=True)
class EmbeddedServers:
    """Where the running servers are; ``owner`` tells whether this process owns the servers, and will stop them."""

    postgres_socket_dir: Path
    valkey_socket: Path
    postgres_pid: int | None
    valkey_pid: int | None
    owner: bool
    _owned: tuple[Daemon, ...] = ()
    _ends: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))  # times of time.monotonic()

    def start_again(self, say: Callable[[str], None]) -> None:
        """Start each server again that has ended since; `say` gets a sentence about each. A guest does nothing.

        Raises EmbeddedError if a server cannot be started, or has ended `MOST_ENDS` times within `ENDS_WITHIN_S`.
        """
        for daemon in self._owned:
            if daemon.has_ended():
                self._note_end(daemon)
                if pids := daemon.end_leftovers():
                    say(f"{daemon.name} has left processes behind, which are ended: {', '.join(map(str, pids))}.")
                say(f"{daemon.name} has ended, and is started again: what it wrote is in {daemon.previous_log()}.")
                _ensure_running(daemon)

    def _note_end(self, daemon: Daemon) -> None:
        now = time.monotonic()
        self._ends[daemon.name] = ends = [at for at in self._ends[daemon.name] if at > now - ENDS_WITHIN_S] + [now]
        if len(ends) >= MOST_ENDS:
            raise EmbeddedError(
                f"{daemon.name} has ended {MOST_ENDS} times within {ENDS_WITHIN_S:g} s, and is not started again: "
                f"see {daemon.log}, or set {daemon.instead} to a server of your own."
            )


def home() -> Path:
    """Return the folder of this checkout's servers: WEIR_HOME (relative to the checkout), or ``.weir``."""
    return (CHECKOUT / Path(os.environ.get("WEIR_HOME") or ".weir").expanduser()).resolve()


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
            _owned=tuple(daemons) if lock is not None else (),
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
