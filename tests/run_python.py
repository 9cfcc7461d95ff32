"""Python in a process of its own, run to its end."""

import os
import subprocess
import sys
from pathlib import Path

from project.checkout import CHECKOUT


def run_python(*arguments: str, folder: Path = CHECKOUT, **variables: str) -> str:
    """Run Python in the folder, with these variables beside those of this process; return what it writes.

    Fails the test, which shows that, where the exit status is not 0.
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
