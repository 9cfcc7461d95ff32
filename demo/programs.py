"""Programs of the demo, each in a process of its own that does not outlive the demo."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from demo.fakes.children import end
from project.checkout import CHECKOUT

# Models can be imported only once Django is set up, so `python -m demo.MODULE` would fail.
START = """
from demo.fakes.children import die_with_parent
die_with_parent()
import django
django.setup()
from demo import {module}
{module}.main()
"""


@dataclass(frozen=True, kw_only=True)
class Program:
    """A program that runs or has stopped; `name` is that of its module."""

    name: str
    _process: subprocess.Popen[bytes]
    _log: Path

    @property
    def has_stopped(self) -> bool:
        """Whether its process has ended."""
        return self._process.poll() is not None

    def check(self) -> None:
        """Raise RuntimeError if its process has ended by itself."""
        if self.has_stopped:
            raise RuntimeError(f"The demo's {self.name} ended: the last words are in {self._log}.")

    def stop(self) -> None:
        """Let it finish its current action, and end it."""
        end(self._process)


@contextmanager
def running(name: str, *arguments: str, log: Path, env: Mapping[str, str] | None = None) -> Iterator[Program]:
    """Run `main` of a module of the demo, with Django set up and output appended to `log`; stop it on leaving.

    RuntimeError if its process ended with an error.
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
