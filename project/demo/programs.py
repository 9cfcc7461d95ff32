"""Programs of the demo: each a process of its own, which ends with the demo at the latest."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from project.demo.home import CHECKOUT

START_TIMEOUT_S = 20.0
STOP_TIMEOUT_S = 4.0
POLL_S = 0.01
# Models can be imported only when Django is set up, so the module cannot simply be run.
START = """
from project.demo.sites import die_with_parent
die_with_parent()
import django
django.setup()
from project.demo import {module}
{module}.main()
"""


@dataclass(frozen=True, kw_only=True)
class Program:
    """A program that is at work, or has stopped; `name` is its module's."""

    name: str
    _process: subprocess.Popen[bytes]
    _log: Path

    @property
    def has_stopped(self) -> bool:
        """Whether it does nothing any more."""
        return self._process.poll() is not None

    def check(self) -> None:
        """Raise RuntimeError if it ended by itself."""
        if self.has_stopped:
            raise RuntimeError(f"The demo's {self.name} ended: the last words are in {self._log}.")

    def stop(self) -> None:
        """Have it finish what it is doing, and end."""
        _end(self._process)


@contextmanager
def running(name: str, *arguments: str, log: Path, env: Mapping[str, str] | None = None) -> Iterator[Program]:
    """Run `main` of the demo's module of this name, with Django; its output is appended to `log`. End it on leaving.

    RuntimeError if it ended with an error.
    """
    with log.open("ab") as output:
        process = subprocess.Popen(  # noqa: S603 our own code
            [sys.executable, "-c", START.format(module=name), *arguments],
            cwd=CHECKOUT,
            env=os.environ if env is None else env,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    program = Program(name=name, _process=process, _log=log)
    try:
        yield program
    finally:
        program.stop()
    if process.returncode:
        program.check()


@contextmanager
def child(name: str, command: Sequence[str], ready: Path) -> Iterator[dict[str, Any]]:
    """Run a process that writes the JSON file `ready`, and yield what that says; end the process on leaving.

    RuntimeError if it does not start, or ends with an error.
    """
    ready.unlink(missing_ok=True)
    process = subprocess.Popen(command, cwd=CHECKOUT)  # noqa: S603 our own code
    try:
        give_up_at = time.monotonic() + START_TIMEOUT_S
        while not ready.exists():
            if process.poll() is not None or time.monotonic() > give_up_at:
                raise RuntimeError(f"The {name} did not start.")
            time.sleep(POLL_S)
        yield json.loads(ready.read_text())
    finally:
        _end(process)
    if process.returncode:
        raise RuntimeError(f"The {name} ended with {process.returncode}.")


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
