"""The supervisor ends all that its command started, after SIGTERM and after the death of its starter."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from project.processes import supervisor
from tests.waiting import wait_for

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="orphans are handed to a subreaper on Linux only")

# Starts a grandchild in a session of its own that notes its pid and ends only by SIGKILL, and then waits for ever.
STUBBORN = """
import pathlib, signal, subprocess, sys
child = "import os, pathlib, signal, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN); " \\
    "pathlib.Path(sys.argv[1]).write_text(str(os.getpid())); signal.pause()"
subprocess.Popen([sys.executable, "-c", child, sys.argv[1]], start_new_session=True)
signal.pause()
"""
# Notes that it was asked to end.
ORDERLY = """
import pathlib, signal, sys
signal.signal(signal.SIGTERM, lambda *_: (pathlib.Path(sys.argv[1]).write_text("asked"), sys.exit()))
pathlib.Path(sys.argv[1]).write_text("ready")
signal.pause()
"""
# Starts the supervisor as `up` would, and says which process that is.
STARTER = """
import os, signal, subprocess, sys
supervisor, *command = sys.argv[1:]
process = subprocess.Popen([sys.executable, "-P", supervisor, str(os.getpid()), *command], start_new_session=True)
print(process.pid, flush=True)
signal.pause()
"""


@pytest.fixture
def note(tmp_path: Path) -> Path:
    """The file in which a test's process writes."""
    return tmp_path / "note"


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Processes that are killed at the end, if they are still there."""
    processes: list[subprocess.Popen[bytes]] = []
    yield processes
    for process in processes:
        process.kill()
        process.wait()


def supervised(program: str, note: Path) -> list[str]:
    """Return the command that runs a program under a supervisor of ours."""
    return [sys.executable, "-P", supervisor.__file__, str(os.getpid()), sys.executable, "-c", program, str(note)]


def written(note: Path) -> str:
    """Return what the note says, nothing before it is there."""
    return note.read_text() if note.exists() else ""


def test_an_order_to_stop_is_passed_on(note: Path, started: list[subprocess.Popen[bytes]]) -> None:
    """SIGTERM reaches the command, which ends in its own way; the supervisor ends with it, at once."""
    process = subprocess.Popen(supervised(ORDERLY, note))
    started.append(process)
    wait_for(lambda: written(note) == "ready", 10, "the command")
    asked_at = time.monotonic()
    process.send_signal(signal.SIGTERM)
    assert process.wait(10) == 0
    assert written(note) == "asked"
    assert time.monotonic() - asked_at < supervisor.STOP_TIMEOUT_S


def test_what_ignores_the_order_is_killed(tmp_path: Path, started: list[subprocess.Popen[bytes]]) -> None:
    """A grandchild in another session, whose parent is gone, and which ignores SIGTERM, is gone within 5 s.

    Also where it was given more time first: Ctrl-C ends a reload, too.
    """
    notes = [tmp_path / "asked", tmp_path / "given more time"]
    asked, given = (subprocess.Popen(supervised(STUBBORN, note)) for note in notes)
    started += asked, given
    wait_for(lambda: all(map(written, notes)), 10, "the grandchildren")
    given.send_signal(signal.SIGHUP)
    time.sleep(0.1)  # two signals at once are handled in the order of their numbers
    give_up_at = time.monotonic() + 5
    for process in (asked, given):
        process.send_signal(signal.SIGTERM)
    for process in (asked, given):
        process.wait(give_up_at - time.monotonic())
    assert not any(psutil.pid_exists(int(written(note))) for note in notes)


def test_killing_the_starter_stops_everything(note: Path, started: list[subprocess.Popen[bytes]]) -> None:
    """After `kill -9` of its starter, the kernel sends the supervisor SIGTERM, and it stops the command."""
    starter = subprocess.Popen(
        [sys.executable, "-c", STARTER, supervisor.__file__, sys.executable, "-c", ORDERLY, str(note)],
        stdout=subprocess.PIPE,
    )
    started.append(starter)
    assert starter.stdout is not None
    supervisor_pid = int(starter.stdout.readline())
    wait_for(lambda: written(note) == "ready", 10, "the command")
    starter.kill()
    wait_for(lambda: written(note) == "asked", 5, "the order to stop")
    wait_for(lambda: not psutil.pid_exists(supervisor_pid), 5, "the end of the supervisor")


def test_the_exit_code_is_the_commands() -> None:
    """So a release that fails is known to have failed."""
    command = [sys.executable, "-P", supervisor.__file__, str(os.getpid()), "/bin/sh", "-c", "exit 3"]
    assert subprocess.run(command, check=False).returncode == 3


def test_a_later_signal_does_not_cut_the_stopping_short() -> None:
    """From the first one on none raises: one that came at once would leave everything running."""
    before = {each: signal.getsignal(each) for each in supervisor.ASKING}
    deadline = supervisor._Deadline()
    try:
        signal.signal(signal.SIGTERM, deadline.leave)
        with pytest.raises(SystemExit):
            signal.raise_signal(signal.SIGTERM)
        kill_at = deadline.at
        for each in supervisor.ASKING:
            signal.raise_signal(each)
        assert deadline.at == kill_at
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
