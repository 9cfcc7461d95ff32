"""Processes that are killed (SIGKILL), and replaced by who has started them."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import IO, Self

import psutil

from project.checkout import CHECKOUT

# The kernel remembers what `die_with_parent` asks of it when the process becomes another program.
START = """
import os, sys
from demo.fakes.children import die_with_parent
die_with_parent()
os.execv(sys.argv[1], sys.argv[1:])
"""


@dataclass(frozen=True, kw_only=True)
class Kind:
    """Programs that do the same by processes that they start, and start again; a command begins with a path."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    count: int = 1
    is_killed: bool = True


class Programs:
    """The programs of these kinds, which append their output to `log`; all of their processes are killed on leaving."""

    def __init__(self, kinds: Sequence[Kind], log: Path) -> None:
        self.log = log
        self._kinds = kinds
        self._running: dict[str, list[subprocess.Popen[bytes]]] = {}

    def __enter__(self) -> Self:
        with self.log.open("ab") as output:
            for kind in self._kinds:
                self._running[kind.name] = [_started(kind, output) for _ in range(kind.count)]
        return self

    def __exit__(self, *_exception: object) -> None:
        """Kill all of them."""
        for program in [program for programs in self._running.values() for program in programs]:
            processes = _below(program)
            program.kill()
            program.wait()
            for process in processes:
                _kill(process)

    def check(self) -> None:
        """Raise RuntimeError if one of the programs has ended."""
        for name, programs in self._running.items():
            if any(program.poll() is not None for program in programs):
                raise RuntimeError(f"{name} ended by itself; see {self.log}.")

    def kill(self, chance: Random) -> None:
        """Kill one process of each kind that is to be killed, of its programs in turn: one that no other waits for."""
        for kind in self._kinds:
            if kind.is_killed:
                programs = self._running[kind.name]
                programs.append(programs.pop(0))
                if processes := [process for process in _below(programs[-1]) if not _children(process)]:
                    _kill(chance.choice(processes))


def _started(kind: Kind, output: IO[bytes]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", START, *kind.command],
        cwd=CHECKOUT,
        env={**os.environ, **kind.environment},
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
    )


def _below(program: subprocess.Popen[bytes]) -> list[psutil.Process]:
    return _children(psutil.Process(program.pid), recursive=True)


def _children(process: psutil.Process, *, recursive: bool = False) -> list[psutil.Process]:
    with suppress(psutil.NoSuchProcess):
        return process.children(recursive=recursive)
    return []


def _kill(process: psutil.Process) -> None:
    with suppress(psutil.NoSuchProcess):
        process.kill()
