"""Child processes of the demo and of tests: they end with their parent, and say in a file when they are ready."""

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
CHECKOUT = Path(__file__).resolve().parents[2]


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
        end(process)
    if process.returncode:
        raise RuntimeError(f"The {name} ended with {process.returncode}.")


def die_with_parent() -> None:
    """Have the kernel end this process when the thread that started it ends."""
    parent = os.getppid()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        sys.exit()


def write_whole(path: Path, state: dict[str, object]) -> None:
    """Write JSON that a reader finds whole or not at all."""
    partial = path.with_name(path.name + ".partial")
    partial.write_text(json.dumps(state))
    partial.replace(path)


def end(process: subprocess.Popen[bytes]) -> None:
    """Have a process end, by force where that takes too long."""
    process.terminate()
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
