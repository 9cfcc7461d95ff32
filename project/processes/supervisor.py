"""Runs one command, and ends all of its processes: after SIGTERM, and after the death of the process that started it.

`procfile.py` starts `python -P supervisor.py STARTER_PID COMMAND...`, in a session of its own. On Linux, orphans become
children of the nearest *subreaper* above them (prctl(2)), and this process is one. So every process that the command's
processes start, in any session, stays a descendant of this process, which finds it there. On other systems the
supervisor only passes SIGTERM on to the command.

1. Start the command. Wait until it ends, or SIGTERM arrives, which the kernel also sends when the starter dies.
2. Ask the command to end, which should stop the processes that it started. Then ask the processes that are left.
3. Kill the processes that have not ended within `STOP_TIMEOUT_S`.

SIGHUP is passed on as SIGHUP, and gives the processes more time: `FINISH_TIMEOUT_S`. A later SIGTERM shortens the time.
"""

import ctypes
import math
import os
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from types import FrameType

PR_SET_PDEATHSIG = 1  # Linux, for prctl
PR_SET_CHILD_SUBREAPER = 36
STOP_TIMEOUT_S = 4.0  # a fetcher that stops waits 3 s for the answers in flight
FINISH_TIMEOUT_S = 30.0  # for a user's task to finish; a task that hangs must end at some time
KILL_TIMEOUT_S = 0.5  # SIGKILL takes effect within this, unless the process hangs in the kernel
POLL_S = 0.04
ASKING = (signal.SIGTERM, signal.SIGHUP)


class _Deadline:
    """When all remaining processes are killed. A later signal may make this time earlier, never later."""

    def __init__(self) -> None:
        self.at = math.inf  # of time.monotonic()
        self.order = signal.SIGTERM  # the signal that asks the command to end

    def note(self, signum: int, _frame: FrameType | None = None) -> None:
        """Record that this signal arrived."""
        patience_s = FINISH_TIMEOUT_S if signum == signal.SIGHUP else STOP_TIMEOUT_S
        self.at = min(self.at, time.monotonic() + patience_s)
        self.order = signal.Signals(signum)

    def leave(self, signum: int, _frame: FrameType | None = None) -> None:
        """Record the first signal, and raise SystemExit. Later signals raise nothing: that could skip the stopping."""
        self.only_note()
        self.note(signum)
        sys.exit(0)

    def only_note(self) -> None:
        """From now on, record signals without raising."""
        for each in ASKING:
            signal.signal(each, self.note)


def supervise(starter_pid: int, command: list[str]) -> int:
    """Run the command until it or the starter ends, or SIGTERM or SIGHUP comes; return its exit code."""
    deadline = _Deadline()
    for each in ASKING:
        signal.signal(each, deadline.leave)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    process: subprocess.Popen[bytes] | None = None
    try:
        if sys.platform == "linux":
            _adopt_orphans_and_follow(starter_pid)
        process = subprocess.Popen(command)  # noqa: S603 -- our caller's command, no shell
        return process.wait()
    finally:
        deadline.only_note()
        if deadline.at == math.inf:  # the command ended by itself
            deadline.note(signal.SIGTERM)
        _stop(process, deadline)


def _adopt_orphans_and_follow(starter_pid: int) -> None:
    prctl = ctypes.CDLL(None).prctl
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != starter_pid:  # the starter died before the prctl
        sys.exit(0)


def _stop(process: subprocess.Popen[bytes] | None, deadline: _Deadline) -> None:
    asked: set[int] = set()
    while (left := _left(process)) and time.monotonic() < deadline.at + KILL_TIMEOUT_S:
        if time.monotonic() < deadline.at:
            responsible = left & {process.pid} if process else set()
            now_asked = (responsible or left) - asked
            _send(deadline.order if responsible else signal.SIGTERM, now_asked)
            asked |= now_asked
        else:
            _send(signal.SIGKILL, left)
        time.sleep(POLL_S)


def _left(process: subprocess.Popen[bytes] | None) -> set[int]:
    """Return the processes below this one; those that have ended are reaped first."""
    if sys.platform != "linux":
        return {process.pid} if process and process.poll() is None else set()
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    return set(descendants(os.getpid()))


def _send(stop_signal: signal.Signals, pids: Iterable[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, stop_signal)


def descendants(of_pid: int) -> list[int]:
    """Return the ids of all processes below this one in the tree of processes. Linux only."""
    children = defaultdict(list)
    for entry in os.scandir("/proc"):  # glob() may raise if a process ends meanwhile
        with suppress(OSError):  # the process ended meanwhile
            # "pid (name) state parent ...": the name may contain anything, including parentheses
            stat = Path(entry, "stat").read_bytes() if entry.name.isdecimal() else b""
            if stat:
                children[int(stat.rpartition(b")")[2].split()[1])].append(int(entry.name))
    found = [of_pid]
    for found_pid in found:  # the list grows meanwhile
        found.extend(children[found_pid])
    return found[1:]


if __name__ == "__main__":
    sys.exit(supervise(int(sys.argv[1]), sys.argv[2:]))
