"""Python processes that start in a third of the time: forks of one that has imported what all need from other packages.

Each fork imports settings, apps and tasks, and whatever else is ours, itself, in its own environment. If several
processes of Weir have the same environment, a fork of that environment imports what is ours once, and is forked for
each of them (`of_weir`).

This module is also the program that is forked; its standard input is the socket by which it is told what to become. It
is started with an empty DJANGO_SETTINGS_MODULE: a library that reads settings when it is imported breaks immediately.
"""

import atexit
import ctypes
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import IO
from zoneinfo import ZoneInfo, available_timezones

from tests.fork_imports import IMPORTS

CHECKOUT = Path(__file__).parents[1]
# What processes of Weir import of ours, by the module that they run; those that are not listed import what workers do.
OURS = {"uvicorn": ("uvicorn", "project.front.server", "project.urls"), "": ("project.celery", "project.errors")}
_zones: list[ZoneInfo] = []  # read before any fork: models of django-celery-beat ask for all
MOST_OF_WEIR = 3  # environments that are kept
OF_ONE_TEST = "PYTEST_CURRENT_TEST"  # pytest sets it, to another value for each test
LONGEST_ORDER = 100_000  # bytes
NUMBER = struct.Struct("i")
PR_SET_PDEATHSIG = 1  # Linux, for prctl


class Forked:
    """Runs `python` with these arguments: `-c`, a program and its arguments, or `-m`, a module and its arguments.

    It has what tests use of `subprocess.Popen`. Its standard input and output are pipes of text. If a file is named
    for its output, and none for its errors, these are written there, too. It begins in the folder, and imports from
    PYTHONPATH first, as Python does. It is sent SIGTERM when we end. With `of_weir`, it is forked from a process that
    has set Django up already, in the same environment.
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
        orders = _server_of_weir(arguments, environment) if of_weir else _server()[1]
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


@cache
def _server() -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Start the process that is forked, which ends with us; returns it, with the socket by which it gets its orders."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, "-m", __name__]
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT), "DJANGO_SETTINGS_MODULE": ""}
    with theirs:
        return subprocess.Popen(command, cwd=CHECKOUT, env=environment, stdin=theirs.fileno()), ours


_of_weir: dict[tuple[str, ...], socket.socket] = {}  # by the module and the environment, the last one used at the end


def _server_of_weir(arguments: Sequence[str], environment: Mapping[str, str]) -> socket.socket:
    """Return the socket of the process that is forked for this environment.

    If it cannot import ours, such as for a wrong setting, return that of `_server`: each process then shows the error.
    """
    runs = arguments[1] if arguments[0] == "-m" and arguments[1] in OURS else ""
    key = (runs, *(word for pair in sorted(environment.items()) for word in pair))
    if key in _of_weir:
        _of_weir[key] = orders = _of_weir.pop(key)
        return orders
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    told, status = os.pipe()
    order = {"imports": OURS[runs], "environment": dict(environment)}
    with theirs:
        socket.send_fds(_server()[1], [json.dumps(order).encode()], [theirs.fileno(), status])
    os.close(status)
    can_import = os.read(told, NUMBER.size)
    os.close(told)
    if not can_import:
        ours.close()
        return _server()[1]
    while len(_of_weir) >= MOST_OF_WEIR:
        _of_weir.pop(next(iter(_of_weir))).close()  # it ends after its forks
    _of_weir[key] = ours
    return ours


def main() -> None:
    """Fork for each order, until no process can give one any more."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for name in IMPORTS:
        importlib.import_module(name)
    _zones.extend(map(ZoneInfo, available_timezones()))
    _end(_serve)


def _end(run: Callable[[], None]) -> None:
    """Run this, and end as Python does, but leave the memory to the kernel.

    To free all that was imported before the fork copies it first, and takes four times as long as the fork.
    """
    status = 0
    try:
        run()
    except KeyboardInterrupt:
        raise
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        if isinstance(ended.code, str):
            print(ended.code, file=sys.stderr)
    except BaseException:  # noqa: BLE001  as Python shows what nothing catches
        sys.excepthook(*sys.exc_info())
        status = 1
    threading._shutdown()  # type: ignore[attr-defined]  # waits for threads
    atexit._run_exitfuncs()
    for written in (sys.stdout, sys.stderr):
        try:
            written.flush()
        except (OSError, ValueError):  # nobody reads it, or it was closed: so says Python, too
            status = status or 120
    os._exit(status & 0xFF)


def _serve(*, ends_last: bool = False) -> None:
    gc.freeze()
    orders = socket.socket(fileno=os.dup(0))
    while (received := socket.recv_fds(orders, LONGEST_ORDER, 4))[0]:
        order, (*files, status) = json.loads(received[0]), received[1]
        if os.fork() == 0:
            orders.close()
            break
        for descriptor in (*files, status):
            os.close(descriptor)
    else:
        with suppress(ChildProcessError):
            while ends_last:  # how the forks ended is not asked: it returns when none is left
                os.wait()
        return
    _end_with_parent(signal.SIGKILL)
    if "imports" in order:
        _serve_weir(files, status, **order)
        return
    # The parent of the process that was asked for: it waits, and reports how that process has ended.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if child := os.fork():
        os.write(status, NUMBER.pack(child))
        for descriptor in files:
            os.close(descriptor)
        os.write(status, NUMBER.pack(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])))
        os._exit(0)
    os.close(status)
    _become(files, **order)


def _serve_weir(files: Sequence[int], status: int, *, imports: Sequence[str], environment: dict[str, str]) -> None:
    """Import what is ours in this environment, report that, and fork; end when the last fork has ended."""
    _take_over(files, environment)
    try:
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
        importlib.import_module("django").setup()
        importlib.import_module("project.celery").app.loader.import_default_modules()
        for name in imports:
            importlib.import_module(name)
    except BaseException:  # noqa: BLE001  a process that starts by itself shows the error
        os._exit(1)
    if threading.active_count() > 1:
        os._exit(1)  # a fork has one thread
    os.environ.clear()
    os.environ.update(environment)
    os.write(status, NUMBER.pack(0))
    os.close(status)
    _serve(ends_last=True)


def _end_with_parent(number: int) -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, number)


def _become(
    files: Sequence[int], *, arguments: list[str], environment: dict[str, str], own_session: bool, folder: str
) -> None:
    _end_with_parent(signal.SIGTERM)
    if own_session:
        os.setsid()
    _take_over(files, environment)
    os.chdir(folder)
    what, program, *rest = arguments
    sys.argv = [what if what == "-c" else program, *rest]
    if what == "-m":
        runpy.run_module(program, run_name="__main__", alter_sys=True)
    else:
        sys.modules["__main__"] = main_module = ModuleType("__main__")
        exec(compile(program, "<string>", "exec"), main_module.__dict__)  # noqa: S102  as `python -c` does


def _take_over(files: Sequence[int], environment: Mapping[str, str]) -> None:
    for descriptor, file in enumerate(files):
        os.dup2(file, descriptor)
        os.close(file)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[:0] = filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))


if __name__ == "__main__":
    main()
