"""Child processes of the demo, of tests and of benchmarks: they end with their parent, and say when they are ready."""

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

START_TIMEOUT_S = 20.0
STOP_TIMEOUT_S = 4.0
POLL_S = 0.01
PR_SET_PDEATHSIG = 1  # Linux, for prctl
# A child runs in this folder: Python finds the package `demo` there, whatever the parent's current folder is.
ABOVE_DEMO = Path(__file__).resolve().parents[2]


@contextmanager
def child(
    name: str, module: str, arguments: Sequence[str], ready: Path, *, inside: Sequence[str] = ()
) -> Iterator[dict[str, Any]]:
    """Run `python -m module`, which writes the JSON file `ready`; yield its content; end the process on leaving.

    `inside` is what the command begins with, such as `nsenter` and its options. Paths in `arguments` are absolute.
    RuntimeError if the process does not start, or ends with an error; `name` is what the error calls it.
    """
    ready.unlink(missing_ok=True)
    process = start(module, arguments, inside)
    try:
        give_up_at = time.monotonic() + START_TIMEOUT_S
        while not ready.exists():
            if process.poll() is not None or time.monotonic() > give_up_at:
                raise RuntimeError(f"The {name} did not start.")
            time.sleep(POLL_S)
        yield json.loads(ready.read_text())
    finally:
        end(process)
    if process.returncode:
        raise RuntimeError(f"The {name} ended with {process.returncode}.")


def start(module: str, arguments: Sequence[str], inside: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start the process of `child`, and return it. Tests replace this function: they fork."""
    command = [*inside, sys.executable, "-m", module, *arguments]
    return subprocess.Popen(command, cwd=ABOVE_DEMO)  # noqa: S603  our own code


def die_with_parent() -> None:
    """Ask the kernel to send SIGTERM to this process when the thread that started it ends."""
    parent = os.getppid()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # the parent ended before the kernel was asked
        sys.exit()


def end(process: subprocess.Popen[bytes]) -> None:
    """Ask a process to end with SIGTERM, and kill it if it has not ended after `STOP_TIMEOUT_S`."""
    process.terminate()
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
