"""Processes that tests kill. They are forked, so that a start costs little.

A process can be told to kill itself at a step of its work; steps are found by wrapping what the code calls.
"""

import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any, NoReturn

import django
from django.test import override_settings

django.setup()  # in pytest it is set up already, but not where processes are forked from

from django.conf import settings  # noqa: E402  once Django is set up
from django.db import connection  # noqa: E402

ORPHANED = 1  # the parent of those whose parent is gone
END_WITHIN_S = 60
# Between two rounds: processes that never wait take the processors from the one that kills them, and from other tests.
PAUSE_S = 0.0 if os.environ.get("WEIR_FAULTS") else 0.005


class Processes:
    """Starts processes and kills them; none is left at the end.

    They are on the test database, and have our values of the settings that are named. `preload` is the module of what
    they do.
    """

    def __init__(self, folder: Path, preload: str, *same_settings: str) -> None:
        self.stop = folder / "stop"
        self._same_settings = same_settings
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload([preload])
        self._running: list[ForkServerProcess] = []

    def start(self, role: Callable[..., None], *arguments: object, **options: object) -> ForkServerProcess:
        """Start a process that does this."""
        database = str(connection.settings_dict["NAME"])
        same = {name: getattr(settings, name) for name in self._same_settings}
        process = self._context.Process(target=_begin, args=(database, same, role, *arguments), kwargs=options)
        process.start()
        self._running.append(process)
        return process

    def kill(self, process: ForkServerProcess) -> None:
        """End a process with SIGKILL."""
        process.kill()
        self.gone(process)

    def gone(self, process: ForkServerProcess) -> None:
        """Wait until a process was killed, by itself or by a test."""
        process.join(END_WITHIN_S)
        assert process.exitcode == -signal.SIGKILL
        self._running.remove(process)

    def finish(self) -> None:
        """Let all others end by themselves."""
        self.stop.touch()
        for process in self._running:
            process.join(END_WITHIN_S)
            assert process.exitcode == 0
        self._running.clear()
        self.stop.unlink()

    def close(self) -> None:
        """Kill what is left."""
        for process in self._running:
            process.kill()
            process.join()


def _begin(
    database: str, same: dict[str, Any], role: Callable[..., None], *arguments: object, **options: object
) -> None:
    connection.settings_dict["NAME"] = database
    override_settings(**same).enable()
    role(*arguments, **options)


def goes_on(stop: Path) -> bool:
    """Tell whether to continue, after a pause: the file `stop` does not exist, and the parent lives."""
    time.sleep(PAUSE_S)
    return os.getppid() != ORPHANED and not stop.exists()


def die_around(
    owner: Any, name: str, when: str, counts: Callable[[tuple[Any, ...], Any], object] = lambda *_: True
) -> None:
    """Let this process die "before" or "after" it calls this function, if the call counts.

    `counts` is asked with the positional arguments and the result, which is None before.
    """
    call = getattr(owner, name)

    def wrapped(*arguments: Any, **options: Any) -> Any:
        if when == "before" and counts(arguments, None):
            die()
        result = call(*arguments, **options)
        if when == "after" and counts(arguments, result):
            die()
        return result

    setattr(owner, name, wrapped)


def die() -> NoReturn:
    """End this process with SIGKILL."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError
