"""Runs programs side by side until one ends, with the program's name before each line, as `honcho start` does.

`python -P programs.py JSON WIDTH`: JSON is a list of the fields of each `Program`, and WIDTH the width of the column of
names. `procfile.py` starts this program as a child of `supervisor.py`. Honcho does the work. The differences from
honcho's own command:

- A signal that arrives before honcho knows the process ids of all programs takes effect as soon as it knows them.
- After SIGHUP, each program is asked to end, but its children are not: a Celery worker waits for its children's tasks.
  Honcho kills no program then. The supervisor does, which knows how long the programs have.
- Only one of honcho's own lines is written: which program ended by itself, and with which status.
"""

import json
import os
import signal
import sys
from contextlib import suppress
from itertools import islice
from types import FrameType
from typing import NamedTuple

from honcho.colour import get_colours
from honcho.compat import ProcessManager
from honcho.manager import Manager
from honcho.printer import Printer

COLOURS = 12  # as many as honcho has


class Program(NamedTuple):
    """A program: its name, its line for the shell, the variables added to its environment, the number of its colour."""

    name: str
    command: str
    env: dict[str, str]
    colour: int


class _Asking(ProcessManager):  # type: ignore[misc] # honcho's have no types
    asks_alone = False

    def terminate(self, pid: int) -> None:
        if not self.asks_alone:
            super().terminate(pid)
            return
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)


class _Programs(Manager):  # type: ignore[misc] # as above
    def __init__(self, printer: Printer) -> None:
        super().__init__(printer)
        self._procmgr = _Asking()
        self._is_to_end = False
        signal.signal(signal.SIGHUP, self._finish)

    def terminate(self) -> None:
        """Ask all programs to end, as soon as honcho knows that all have started."""
        self._is_to_end = True
        self._all_started()

    def _all_started(self) -> bool:
        started: bool = super()._all_started()
        if started and self._is_to_end:
            super().terminate()
        return started

    def _finish(self, _signum: int, _frame: FrameType | None) -> None:
        self._procmgr.asks_alone = True
        signal.raise_signal(signal.SIGTERM)

    def kill(self) -> None:
        if not self._procmgr.asks_alone:
            super().kill()

    def _system_print(self, data: str) -> None:
        if "stopped" in data and not self._terminating:
            super()._system_print(data)


def run(programs: list[Program], width: int) -> int:
    """Run the programs until one ends, then end the others; return the exit status of the program that ended first."""
    printer = Printer(sys.stdout, colour=not os.environ.get("NO_COLOR"))
    manager = _Programs(printer)
    colours = list(islice(get_colours(), COLOURS))
    for program in programs:
        added = manager.add_process(program.name, f"exec {program.command}", env={**os.environ, **program.env})
        added.colour = colours[program.colour % COLOURS]
    printer.width = max(printer.width, width)
    manager.loop()
    status: int = manager.returncode
    return status


if __name__ == "__main__":
    sys.exit(run([Program(*fields) for fields in json.loads(sys.argv[1])], int(sys.argv[2])))
