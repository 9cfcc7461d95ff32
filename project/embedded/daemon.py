"""A server process that may outlive the process that started it, and can then be adopted.

Process ids are reused and pid files stay behind, so neither tells whether a server runs. Here the server itself holds a
file lock, through a descriptor that it inherits. The lock is held exactly as long as one of the server's processes
lives, even after ``kill -9`` of the starter. While the lock is held, the server's pid file can be trusted.
"""

import fcntl
import os
import signal
import socket
import stat
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from project.embedded.places import Account, EmbeddedError

START_TIMEOUT_S = 60.0  # PostgreSQL may first have to recover from a crash
STOP_TIMEOUT_S = 30.0
LEFTOVERS_S = 2.0  # how long the other processes of a server that was killed have to notice it
POLL_S = 0.02

# The servers do not get the environment of this process, which has passwords that the servers' user must not see.
ENVIRONMENT = {"LC_ALL": "C", "PATH": os.defpath}


@dataclass(kw_only=True)
class Daemon:
    """One server. Only the owner of the home may call `ensure_running` and `stop`."""

    name: str
    instead: str  # the environment variable with which a user names another server
    command: Sequence[str]
    account: Account
    lock: Path
    log: Path
    pid_file: Path
    socket: Path
    stop_signals: tuple[signal.Signals, signal.Signals]  # for an orderly shutdown, then for an immediate one
    prepare: Callable[[], None]  # makes folders and data; called only while the server does not run
    answers: Callable[[], bool]
    complete: Callable[[], None] = lambda: None  # called when the server answers; creates what clients expect
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)
    _pid: int | None = field(default=None, init=False)

    def ensure_running(self) -> None:
        """Adopt the server if it runs, else start it; return when it answers, and runs with `command`."""
        if not self._adopt():
            self._clear_socket()
            self.prepare()
            self._start()
            self._wait_until_it_answers()
        self.complete()

    def end_leftovers(self) -> list[int]:
        """End the processes that the server's first process has left behind, and return their ids.

        They end by themselves, but for one that computes, which does not notice that the first is gone: the server
        cannot be started beside it. Raises EmbeddedError if one does not end.
        """
        if wait_until(lambda: not is_locked(self.lock), LEFTOVERS_S):
            return []
        found = holders(self.lock)
        for pid in found:
            self._send(signal.SIGKILL, pid)
        if not wait_until(lambda: not is_locked(self.lock), STOP_TIMEOUT_S):
            raise EmbeddedError(f"{self.name} has ended, but has left processes that do not: end them with `kill -9`.")
        return found

    def previous_log(self) -> Path:
        """Return where the log of the run before this one is."""
        return self.log.with_suffix(".previous.log")

    def stop(self) -> None:
        """Shut the server down if it runs: in order, or immediately if an orderly end takes more than STOP_TIMEOUT_S.

        Raises EmbeddedError if the server does not end.
        """
        if self.has_ended():
            return
        pid = self._pid or self._wait_for_pid()
        for stop_signal in self.stop_signals:
            self._send(stop_signal, pid)
            if wait_until(self.has_ended, STOP_TIMEOUT_S):
                return
        raise EmbeddedError(f"{self.name} (process {pid}) does not stop: end it with `kill -9 {pid}`.")

    def _send(self, stop_signal: signal.Signals, pid: int) -> None:
        """Send a signal as the server's user, who cannot harm another user's process that a wrong pid file names."""
        command = ["/bin/sh", "-c", 'kill -s "$0" "$1"', stop_signal.name.removeprefix("SIG"), str(pid)]
        subprocess.run(command, check=False, stderr=subprocess.DEVNULL, **self.account.switch())  # noqa: S603

    def _adopt(self) -> bool:
        """Adopt a server that a killed owner left running, and return True; return False if there is none.

        A server that hangs, or runs with another command, is stopped.
        """
        if not is_locked(self.lock):
            return False
        if self.lock.read_text() == self._recorded_command() and self.socket.exists():
            wait_until(lambda: self.answers() or self.has_ended(), START_TIMEOUT_S)
            if self.answers():
                self._pid = self._wait_for_pid()
                return True
        self.stop()
        return False

    def _recorded_command(self) -> str:
        return "\n".join(self.command)

    def _clear_socket(self) -> None:
        """Remove the socket of a killed server. Raises EmbeddedError if the path has anything else, which stays."""
        if not os.path.lexists(self.socket):
            return
        if not stat.S_ISSOCK(self.socket.lstat().st_mode):
            raise EmbeddedError(
                f"{self.name} needs {self.socket} for its socket, but something else is there: move it away."
            )
        if accepts_connections(self.socket):
            raise EmbeddedError(
                f"Another program answers at {self.socket}, where {self.name} should: "
                "stop it, or set WEIR_HOME to another folder."
            )
        self.socket.unlink()

    def _start(self) -> None:
        lock = try_lock(self.lock)
        if lock is None:
            raise EmbeddedError(f"Another process started {self.name} just now: try again.")
        try:
            os.ftruncate(lock, 0)
            os.write(lock, self._recorded_command().encode())
            if self.log.exists():
                self.log.replace(self.previous_log())
            log = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
            try:
                self._process = subprocess.Popen(  # noqa: S603 -- our own command, no shell
                    self.command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd="/",
                    env=ENVIRONMENT,
                    umask=0o077,
                    start_new_session=True,  # Ctrl-C reaches the owner, which stops the servers in order
                    pass_fds=(lock,),
                    **self.account.switch(),
                )
            finally:
                os.close(log)
        finally:
            os.close(lock)
        self._pid = self._process.pid

    def _wait_until_it_answers(self) -> None:
        wait_until(lambda: self.answers() or self.has_ended(), START_TIMEOUT_S)
        if self.has_ended():
            raise EmbeddedError(
                f"{self.name} ended right after its start (its last words: {self._last_words()}): "
                f"see {self.log}, or set {self.instead} to a server of your own."
            )
        if not self.answers():
            raise EmbeddedError(
                f"{self.name} did not answer within {START_TIMEOUT_S:g} s (its last words: "
                f"{self._last_words()}): see {self.log}, and try again."
            )

    def _last_words(self) -> str:
        lines = [line.strip() for line in self.log.read_text(errors="replace").splitlines()]
        return " | ".join([line for line in lines if line][-3:]) or "none"

    def has_ended(self) -> bool:
        """Return whether the server's first process has ended, if this process started it; else whether all have."""
        if self._process is not None:
            return self._process.poll() is not None
        return not is_locked(self.lock)

    def _wait_for_pid(self) -> int:
        wait_until(lambda: self.pid() is not None, 5)
        pid = self.pid()
        if pid is None:
            raise EmbeddedError(f"{self.name} runs, but {self.pid_file} is gone: stop it by hand.")
        return pid

    def pid(self) -> int | None:
        """Return the id in the server's pid file, None if it has none; the id is right only while the server runs."""
        return read_pid(self.pid_file)


def read_pid(pid_file: Path) -> int | None:
    """Return the number in the file's first line; None without a file or a number."""
    try:
        return int(pid_file.read_text().partition("\n")[0])
    except (FileNotFoundError, ValueError):
        return None


def try_lock(path: Path) -> int | None:
    """Return a descriptor that holds the lock on ``path`` until it is closed; None if a process holds the lock."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def is_locked(path: Path) -> bool:
    """Return whether a process holds the lock. Takes it for a moment: only the owner of the home may call this."""
    if not path.exists():
        return False
    descriptor = try_lock(path)
    if descriptor is None:
        return True
    os.close(descriptor)
    return False


def holders(path: Path) -> list[int]:
    """Return the ids of the processes that have the file open, as far as this user may know."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it is another user's, or has ended
            if any(_is_same(descriptor, path) for descriptor in (process / "fd").iterdir()):
                found.append(int(process.name))
    return found


def _is_same(descriptor: Path, path: Path) -> bool:
    with suppress(OSError):  # it is closed by now
        return descriptor.samefile(path)
    return False


def wait_until(condition: Callable[[], bool], timeout_s: float) -> bool:
    """Return True as soon as ``condition()`` is true, False if that takes longer than ``timeout_s``."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_S)
    return True


def accepts_connections(path: Path) -> bool:
    """Return whether a process listens on the socket."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(1)
        try:
            client.connect(os.fspath(path))
        except TimeoutError:
            return True  # a process listens, and its queue is full
        except OSError:
            return False
    return True
