"""Python processes that start in a third of the time: forks of one that has imported what all need from other packages.

Each fork imports settings, apps and tasks itself, in its own environment. With the project's settings, it is a fork of
one that has also imported what of ours needs no settings. If several processes of Weir have the same environment, a
fork of that environment imports what is ours once, and is forked for each of them (`of_weir`).
"""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO

from tests import fork_server
from tests.fork_imports import OURS_WITHOUT_SETTINGS
from tests.fork_server import NUMBER, SETTINGS

CHECKOUT = Path(__file__).parents[1]
# What processes of Weir import of ours, by the module that they run; those that are not listed import what workers do.
OURS = {"uvicorn": ("uvicorn", "project.front.server", "project.urls"), "": ("project.celery", "project.errors")}
MOST_OF_WEIR = 3  # environments that are kept
OF_ONE_TEST = "PYTEST_CURRENT_TEST"  # pytest sets it, to another value for each test


class Forked:
    """Runs `python` with these arguments: `-c`, a program and its arguments, or `-m`, a module and its arguments.

    It has what tests use of `subprocess.Popen`. Its standard input and output are pipes of text. If a file is named
    for its output, and none for its errors, these are written there, too. It begins in the folder, and imports from
    PYTHONPATH first, as Python does. It is sent SIGTERM when we end. With `of_weir`, it is forked from a process that
    has set Django up already, in the same environment.

    Raises AssertionError if this thread has entered another network: the fork would not be in it.
    """

    def __init__(
        self,
        *arguments: str,
        environment: Mapping[str, str],
        output: IO[bytes] | None = None,
        errors: IO[bytes] | None = None,
        start_new_session: bool = False,
        folder: Path = CHECKOUT,
        of_weir: bool = False,
    ) -> None:
        assert forks_are_in_this_network(), "A fork would not be in the network that this thread has entered."
        self.returncode: int | None = None
        stdin, ours = os.pipe()
        self.stdin = os.fdopen(ours, "w", buffering=1)
        theirs, stdout = os.pipe()
        self.stdout = os.fdopen(theirs)
        self._status, status = os.pipe()
        environment = {name: value for name, value in environment.items() if name != OF_ONE_TEST}
        order = {
            "arguments": arguments,
            "environment": environment,
            "own_session": start_new_session,
            "folder": str(folder),
        }
        written = output.fileno() if output else stdout
        files = (written, errors.fileno() if errors else written if output else 2)
        orders = _server_for(environment, folder)
        if of_weir:
            orders = _server_of_weir(arguments, environment, orders)
        socket.send_fds(orders, [json.dumps(order).encode()], [stdin, *files, status])
        for end in (stdin, stdout, status):
            os.close(end)
        self.pid = self._read()

    def _read(self) -> int:
        number: int = NUMBER.unpack(os.read(self._status, NUMBER.size))[0]
        return number

    def poll(self) -> int | None:
        if self.returncode is None and select.select([self._status], [], [], 0)[0]:
            self.wait()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._status], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("python", timeout or 0)
            self.returncode = self._read()
            os.close(self._status)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it may have ended, with its status still on the way
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def communicate(self, text: str = "", timeout: float = 60) -> tuple[str, None]:
        """Write this text, and return all that is written until the end; a process that takes longer is killed."""
        late = threading.Timer(timeout, self.kill)
        late.start()
        try:
            if not self.stdin.closed:
                self.stdin.write(text)
                self.stdin.close()
        except BrokenPipeError:
            pass  # it does not read
        written = "" if self.stdout.closed else self.stdout.read()
        self.stdout.close()
        self.wait(timeout)
        late.cancel()
        return written, None


def _network() -> int | None:
    """Return which network this thread is in; None where the system has but one."""
    try:
        return Path("/proc/thread-self/ns/net").stat().st_ino
    except FileNotFoundError:
        return None


_NETWORK_OF_FORKS = _network()  # this process's when it begins; a test may enter another one


def forks_are_in_this_network() -> bool:
    """Return whether a fork would be in this thread's network."""
    return _network() == _NETWORK_OF_FORKS


@cache
def _server() -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Start the process that is forked, which ends with us; returns it, with the socket by which it gets its orders."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, "-m", fork_server.__name__]
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT), "DJANGO_SETTINGS_MODULE": ""}
    with theirs:
        return subprocess.Popen(command, cwd=CHECKOUT, env=environment, stdin=theirs.fileno()), ours


def _server_for(environment: Mapping[str, str], folder: Path) -> socket.socket:
    """Return the socket of the process that is forked: with the project's settings, one that has imported more."""
    entries = {folder / entry for entry in environment.get("PYTHONPATH", "").split(os.pathsep) if entry} - {CHECKOUT}
    of_another = any((entry / name).exists() for entry in entries for name in ("project", "weir"))
    if environment.get("DJANGO_SETTINGS_MODULE") != SETTINGS or of_another:
        return _server()[1]
    return _without_settings() or _server()[1]


@cache
def _without_settings() -> socket.socket | None:
    """Start a fork that has imported what of ours needs no settings, and finds no variable; returns its socket."""
    return _importing(_server()[1], OURS_WITHOUT_SETTINGS, {}, sets_up=False)


def _importing(
    orders: socket.socket, imports: Sequence[str], environment: Mapping[str, str], *, sets_up: bool
) -> socket.socket | None:
    """Start a fork that imports these, and is forked in its turn; returns its socket, or None if it cannot."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    told, status = os.pipe()
    order = {"imports": imports, "environment": dict(environment), "sets_up": sets_up}
    with theirs:
        socket.send_fds(orders, [json.dumps(order).encode()], [theirs.fileno(), status])
    os.close(status)
    can_import = os.read(told, NUMBER.size)
    os.close(told)
    if can_import:
        return ours
    ours.close()
    return None


_of_weir: dict[tuple[str, ...], socket.socket] = {}  # by the module and the environment, the last one used at the end


def _server_of_weir(
    arguments: Sequence[str], environment: Mapping[str, str], otherwise: socket.socket
) -> socket.socket:
    """Return the socket of the process that is forked for this environment.

    If it cannot import ours, such as for a wrong setting, return the other: each process then shows the error.
    """
    runs = arguments[1] if arguments[0] == "-m" and arguments[1] in OURS else ""
    key = (runs, *(word for pair in sorted(environment.items()) for word in pair))
    orders = _of_weir.pop(key, None) or _importing(otherwise, OURS[runs], environment, sets_up=True)
    if not orders:
        return otherwise
    while len(_of_weir) >= MOST_OF_WEIR:
        _of_weir.pop(next(iter(_of_weir))).close()  # it ends after its forks
    _of_weir[key] = orders
    return orders
