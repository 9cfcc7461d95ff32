"""Kills the mailers' child processes with SIGKILL, as the kernel does when memory runs out. Celery starts new ones."""

import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from random import Random

from project.processes.procfile import Processes
from project.processes.supervisor import descendants

KILL_EVERY_S = 2.0
MAILER = b"\0--queues\0weir.mail\0"  # as in /proc/PID/cmdline; a shell's command line has no separate words
SEED = 1


class Killer:
    """Kills one child every `KILL_EVERY_S`; `killed` counts them."""

    def __init__(self, running: Processes) -> None:
        self.killed = 0
        self._running = running
        self._kill_at = time.monotonic() + KILL_EVERY_S
        self._random = Random(SEED)  # noqa: S311  no secret

    def kill_if_due(self) -> None:
        """Kill a child chosen at random, unless the last kill was less than `KILL_EVERY_S` ago."""
        if time.monotonic() < self._kill_at:
            return
        self._kill_at = time.monotonic() + KILL_EVERY_S
        if children := mailers_children(self._running.pids()):
            with suppress(ProcessLookupError):  # it ended meanwhile
                os.kill(self._random.choice(children), signal.SIGKILL)
                self.killed += 1


def mailers_children(pids: list[int]) -> list[int]:
    """Return the ids of the processes that a mailer has forked: they have the mailer's command line."""
    mailers = [pid for pid in pids if MAILER in _command_line(pid)]
    below = {child for pid in mailers for child in descendants(pid)}
    return [pid for pid in mailers if pid in below]


def _command_line(pid: int) -> bytes:
    with suppress(OSError):  # it ended meanwhile
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""
