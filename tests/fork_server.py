"""The program that is forked for others (tests/forked.py).

Its standard input is the socket by which it is told what to become. It is started with an empty
DJANGO_SETTINGS_MODULE: a library that reads settings when it is imported breaks immediately.
"""

import atexit
import ctypes
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import struct
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import ModuleType
from zoneinfo import ZoneInfo, available_timezones

from tests.fork_imports import IMPORTS

SETTINGS = "project.settings"
LONGEST_ORDER = 100_000  # bytes
NUMBER = struct.Struct("i")
PR_SET_PDEATHSIG = 1  # Linux, for prctl
_zones: list[ZoneInfo] = []  # read before any fork: models of django-celery-beat ask for all


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
        _serve_imported(files, status, **order)
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


def _serve_imported(
    files: Sequence[int], status: int, *, imports: Sequence[str], environment: dict[str, str], sets_up: bool
) -> None:
    """Import these in this environment, report that, and fork; end when the last fork has ended."""
    _take_over(files, environment)
    try:
        if sets_up:
            os.environ.setdefault("DJANGO_SETTINGS_MODULE", SETTINGS)
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
