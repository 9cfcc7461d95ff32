"""The owner of a home: the one process that starts and stops its servers, known by a file lock."""

import os
import time
from pathlib import Path

from project.embedded.daemon import POLL_S, Daemon, try_lock
from project.embedded.places import EmbeddedError, make_passable_folder

WAIT_TIMEOUT_S = 20.0  # how long a process that does not own the home waits for the servers
# What the owner says of itself in its lock file.
STARTING, RUNNING, STOPPING = "starting", "running", "stopping"


def own_or_wait(home: Path, daemons: list[Daemon]) -> int | None:
    """Return the held lock of the home, or None once the servers of its owner answer."""
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
    """Tell whether the owner has all ready; its own word counts, for it may be about to restart a server."""
    return read_state(home).startswith(RUNNING) and all(daemon.answers() for daemon in daemons)


def try_to_own(home: Path) -> int | None:
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


def read_state(home: Path) -> str:
    return (home / "owner.lock").read_text().strip()


def write_state(lock: int, state: str) -> None:
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"{state} process {os.getpid()}\n".encode(), 0)
