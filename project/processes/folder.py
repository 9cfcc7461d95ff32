"""The only `manage.py up` of a folder, WEIR_HOME, and the variables that it decides for processes with that folder.

`up` holds the lock on `up.lock`, which the kernel releases when `up` ends, even if it is killed. Meanwhile the file has
the process id, the port and the variables of `up`. So a command in another terminal sends e-mails to the same place as
the mailers of `up`, and may fetch what its fetchers may fetch.
"""

import fcntl
import hashlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from project import embedded
from project.embedded import daemon

LOCK = "up.lock"
TAKE_WITHIN_S = 0.5  # `running` holds the lock for a moment, in any process that checks whether an `up` runs
WRITTEN_WITHIN_S = 1.0  # the process that has taken the lock writes the file immediately
LONGEST = 100_000  # bytes


@dataclass(frozen=True, kw_only=True)
class Up:
    """An `up` that runs: its process id and port, and the variables that it decided for every process."""

    pid: int
    port: int
    database: str  # a digest of its DATABASE_URL
    variables: dict[str, str]


class AlreadyRuns(Exception):
    """Another `up` runs from this folder."""

    def __init__(self, other: Up | None) -> None:
        named = f"pid {other.pid}, port {other.port}" if other else "it starts just now"
        super().__init__(
            f"Weir already runs from this folder ({named}): use that one, or stop it first; "
            "for a second one beside it, set WEIR_HOME to another folder and choose another --port."
        )


def refuse_second(home: Path) -> None:
    """Raise AlreadyRuns if an `up` runs from this folder; changes nothing."""
    if (other := running(home)) is not None:
        raise AlreadyRuns(other)


@contextmanager
def held(home: Path, port: int, variables: Mapping[str, str]) -> Iterator[None]:
    """Hold the folder for this process. Raises AlreadyRuns, and EmbeddedError if the folder cannot be used."""
    lock = _take(home)
    try:
        this = Up(pid=os.getpid(), port=port, database=_database(), variables=dict(variables))
        os.ftruncate(lock, 0)
        os.pwrite(lock, json.dumps(asdict(this)).encode(), 0)
        yield
    finally:
        os.close(lock)


def _take(home: Path) -> int:
    embedded.make_home(home)
    give_up_at = time.monotonic() + TAKE_WITHIN_S
    while (lock := _try_lock(home / LOCK)) is None:
        if time.monotonic() > give_up_at:
            raise AlreadyRuns(running(home))
        time.sleep(daemon.POLL_S)
    return lock


def _try_lock(path: Path) -> int | None:
    try:
        return daemon.try_lock(path)
    except OSError as error:  # it is a link, a folder, or another user's
        raise embedded.EmbeddedError(
            f"{path} cannot be used ({error.strerror}): remove it, or set WEIR_HOME to another folder."
        ) from error


def running(home: Path) -> Up | None:
    """Return the `up` that runs from this folder; None if no `up` runs, or if this user may not read its file."""
    try:
        descriptor = os.open(home / LOCK, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        give_up_at = time.monotonic() + WRITTEN_WITHIN_S
        while _is_held(descriptor) and time.monotonic() < give_up_at:
            if (up := _read(descriptor)) is not None:
                return up
            time.sleep(daemon.POLL_S)
    finally:
        os.close(descriptor)
    return None


def of_this_database() -> Up | None:
    """Return the `up` that runs from this folder; None if no `up` runs, or if its database is not this process'."""
    up = running(embedded.home())
    return up if up is not None and up.database == _database() else None


def decided() -> dict[str, str]:
    """Return the variables that the `up` of this folder has decided; none if its database is not this process'."""
    up = of_this_database()
    return up.variables if up is not None else {}


def _is_held(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def _read(descriptor: int) -> Up | None:
    try:
        return Up(**json.loads(os.pread(descriptor, LONGEST, 0)))
    except (ValueError, TypeError):  # the other process is still writing
        return None


def _database() -> str:
    return hashlib.sha256(os.environ.get("DATABASE_URL", "").encode()).hexdigest()
