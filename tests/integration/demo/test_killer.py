"""The demo's killer: it finds the processes that a mailer has forked, and no other."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from demo import killer
from demo.killer import Killer, mailers_children
from project.processes.procfile import Processes
from tests.integration.conftest import Eventually

# Forks two children, as Celery's prefork pool does; each child writes its queue and its process id.
POOL = """
import os, signal, sys
for _ in range(2):
    if not os.fork():
        os.write(1, f"{sys.argv[2]} {os.getpid()}\\n".encode())
        signal.pause()
signal.pause()
"""
# Runs a command in a shell, as honcho does, so that the words stand in the shell's command line, too.
IN_A_SHELL = """
import subprocess, sys
for queue in ("weir.mail", "default"):
    subprocess.Popen(f"{sys.executable} -c '{sys.argv[1]}' --queues {queue}; true", shell=True)
sys.stdin.read()
"""


@pytest.fixture
def supervisor() -> Iterator[subprocess.Popen[bytes]]:
    """A process below which a mailer and a worker run, with two children each."""
    process = subprocess.Popen(
        [sys.executable, "-c", IN_A_SHELL, POOL],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def children(supervisor: subprocess.Popen[bytes]) -> dict[str, set[int]]:
    """Return the children of each queue's process, when all have written their line."""
    found: dict[str, set[int]] = {"weir.mail": set(), "default": set()}
    assert supervisor.stdout is not None
    for _ in range(4):
        queue, pid = supervisor.stdout.readline().decode().split()
        found[queue].add(int(pid))
    return found


def test_it_kills_children_of_mailers_only(
    supervisor: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch, eventually: Eventually
) -> None:
    """One at a time: not the mailer itself, not its shell, and no worker of another queue."""
    monkeypatch.setattr(killer, "KILL_EVERY_S", 0.0)
    expected = children(supervisor)
    running = Processes(names=(), _supervisor=supervisor)
    assert set(mailers_children(running.pids())) == expected["weir.mail"]
    killing = Killer(running)
    for left in (1, 0):
        killing.kill_if_due()
        eventually(lambda left=left: len(mailers_children(running.pids())) == left, "the end of one")
    killing.kill_if_due()  # no child is left
    assert killing.killed == 2
    assert expected["default"] <= set(running.pids())


def test_it_leaves_time_between_two_kills(supervisor: subprocess.Popen[bytes]) -> None:
    """Right after its start no kill is due."""
    expected = children(supervisor)
    running = Processes(names=(), _supervisor=supervisor)
    killing = Killer(running)
    killing.kill_if_due()
    assert killing.killed == 0
    assert set(mailers_children(running.pids())) == expected["weir.mail"]
