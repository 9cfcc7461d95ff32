"""The owner of a home: the one process that starts and stops its servers. It holds the lock on ``owner.lock``.

The owner writes its state into the lock file; guests wait until the state is RUNNING.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from project.embedded.daemon import POLL_S, Daemon, try_lock
from project.embedded.places import EmbeddedError, make_passable_folder

WAIT_TIMEOUT_S = 20.0  # how long a guest waits for the servers
# The states of an owner.
STARTING, RUNNING, STOPPING = "starting", "running", "stopping"


def own_or_wait(home: Path, daemons: list[Daemon]) -> int | None:
    """Return the lock of the home once this process holds it, or None once the servers of another owner answer.

    If the owner ends while a guest waits, the guest becomes the owner. Raises EmbeddedError after `WAIT_TIMEOUT_S`.
    """
    deadline = time.monotonic() + WAIT_TIMEOUT_S
    while (lock := try_to_own(home)) is None and not _in_service(home, daemons):
        if time.monotonic() > deadline:
            missing = " and ".join(daemon.name for daemon in daemons if not daemon.answers()) or "it"
            raise EmbeddedError(
                f"Another process has {home} ({read_state(home)}), and {missing} is not in service after "
                f"{WAIT_TIMEOUT_S:g} s: stop that process, or see the logs in that folder."
            )
        time.sleep(POLL_S)
    return lock


def _in_service(home: Path, daemons: list[Daemon]) -> bool:
    """Return whether the owner is RUNNING and all servers answer: a server that answers may be about to stop."""
    return read_state(home).startswith(RUNNING) and all(daemon.answers() for daemon in daemons)


def try_to_own(home: Path) -> int | None:
    """Return a descriptor that holds the lock of the home until it is closed, None if another process holds it.

    Makes the folder if it does not exist. Raises EmbeddedError if the folder cannot be used.
    """
    make_home(home)
    with _usable(home):
        return try_lock(home / "owner.lock")


def make_home(home: Path) -> None:
    """Make the folder if it does not exist. Raises EmbeddedError if it cannot be made."""
    with _usable(home):
        for folder in (*reversed(home.parents), home):
            if not folder.exists():
                make_passable_folder(folder)


@contextmanager
def _usable(home: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise EmbeddedError(
            f"The folder {home} cannot be used ({error.strerror}): "
            "make it writable for this user, or set WEIR_HOME to another."
        ) from error


def read_state(home: Path) -> str:
    """Return the state of the owner and its process id, such as ``running process 4711``.

    If no process holds the lock, this is the state of the last owner.
    """
    return (home / "owner.lock").read_text().strip()


def write_state(lock: int, state: str) -> None:
    """Replace the state in the lock file, through the descriptor that holds the lock."""
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"{state} process {os.getpid()}\n".encode(), 0)
