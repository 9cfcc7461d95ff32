"""benchmarks.fetches.cpu: what a tree of processes has used."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
import pytest

from benchmarks.fetches import cpu

BURNT_S = 0.4  # far more than it takes a process to start
# A child that uses CPU, says so, and then ends or stays; and its parent, which waits for it or not.
BURN = f"""
import sys, time
while time.process_time() < {BURNT_S}: pass
print(flush=True)
"""
STAY = "sys.stdin.read()"
PARENT = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", {child!r}], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
child.stdout.readline()
{wait}
print(flush=True)
sys.stdin.read()
"""


@contextmanager
def parent(child: str, wait: str = "") -> Iterator[int]:
    """Run a process whose child has used its CPU time; yield its id."""
    command = [sys.executable, "-c", PARENT.format(child=child, wait=wait)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
        process.communicate()


def test_a_child_that_runs_is_counted() -> None:
    """What a descendant uses counts while it runs, and once even where it is named itself."""
    with parent(BURN + STAY) as pid:
        [child] = psutil.Process(pid).children()

        used_s = cpu.used_s([pid])

        assert used_s > BURNT_S / 2
        assert cpu.used_s([pid, child.pid]) < used_s + BURNT_S / 2


def test_a_child_that_has_ended_is_counted() -> None:
    """What a descendant used counts when it is gone."""
    with parent(BURN, wait="child.wait()") as pid:
        assert psutil.Process(pid).children() == []

        assert cpu.used_s([pid]) > BURNT_S / 2


def test_a_process_that_does_not_run_is_an_error() -> None:
    """No figure is made up for a process that is gone."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()

    with pytest.raises(psutil.NoSuchProcess):
        cpu.used_s([process.pid, os.getpid()])
