"""Python in a process of its own, run to its end."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryFile

from project.checkout import CHECKOUT
from tests.forked import Forked

LONGEST_S = 120.0
# Becomes the program, such as manage.py, that its first argument names.
_BECOME = "import runpy, sys; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"


def run_python(*arguments: str, folder: Path = CHECKOUT, **variables: str) -> str:
    """Run Python in the folder, with these variables besides those of this process; return what it writes.

    If the exit status is not 0, the test fails, and shows what Python wrote.
    """
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def run_forked(*arguments: str, folder: Path = CHECKOUT, **variables: str) -> str:
    """Do the same in a fork of a process that has imported the libraries: it starts sooner."""
    with TemporaryFile() as output:
        environment = {**os.environ, **variables}
        process = Forked(*_words(arguments), environment=environment, output=output, folder=folder)
        status = process.wait()
        output.seek(0)
        said = output.read().decode()
    assert status == 0, said
    return said


def forked(
    *arguments: str, environment: Mapping[str, str], folder: Path = CHECKOUT
) -> subprocess.CompletedProcess[str]:
    """Run Python to its end in such a fork, with this environment alone; return how it ended, and both its outputs."""
    with TemporaryFile() as output, TemporaryFile() as errors:
        process = Forked(*_words(arguments), environment=environment, output=output, errors=errors, folder=folder)
        process.communicate(timeout=LONGEST_S)  # it finds nothing to read
        for file in (output, errors):
            file.seek(0)
        return subprocess.CompletedProcess(arguments, process.wait(), output.read().decode(), errors.read().decode())


def _words(arguments: tuple[str, ...]) -> tuple[str, ...]:
    return arguments if arguments[0] in {"-c", "-m"} else ("-c", _BECOME, *arguments)
