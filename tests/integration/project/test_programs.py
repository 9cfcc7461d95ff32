"""Programs that run beside each other: the name of each before its lines, and one line about an end."""

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from project.processes import programs


def run(*lines: tuple[str, str]) -> "subprocess.CompletedProcess[str]":
    """Run programs until they have ended."""
    wanted = [programs.Program(name, line, {"OWN": name}, number) for number, (name, line) in enumerate(lines)]
    command = [sys.executable, "-P", programs.__file__, json.dumps(wanted), "9"]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)


def test_each_line_has_its_programs_name() -> None:
    """And each program its own variables; nothing is said of those that were asked to end."""
    ran = run(("web.1", "sh -c 'echo here is $OWN'"), ("beat.1", "sleep 60"))
    said = [line.partition(" ")[2] for line in ran.stdout.splitlines()]
    assert said == ["web.1     | here is web.1", "system    | web.1 stopped (rc=0)"]


def test_the_status_is_that_of_the_first_that_ended() -> None:
    """So the 70 of a fetcher that hung is known."""
    ran = run(("fetcher.1", "sh -c 'exit 70'"), ("beat.1", "sleep 60"))
    assert ran.returncode == 70
    assert "fetcher.1 stopped (rc=70)" in ran.stdout


def test_at_sighup_a_program_is_asked_to_end_alone() -> None:
    """A worker's child goes on with its task while the worker waits for it."""
    worker = "sh -c '(echo begins; sleep 1; echo finished) & trap \"wait; exit\" TERM; wait'"
    command = [sys.executable, "-P", programs.__file__, json.dumps([programs.Program("worker.1", worker, {}, 0)]), "9"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert "begins" in process.stdout.readline()
    process.send_signal(signal.SIGHUP)
    said, _ = process.communicate(timeout=20)
    assert "worker.1  | finished" in said


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_at_the_start_ends_all(number: signal.Signals) -> None:
    """Also before honcho knows the process ids of all: `up` may be told to reload while it starts."""
    wanted = [programs.Program(f"sleep.{place}", "sleep 61.5", {}, place) for place in range(8)]
    command = [sys.executable, "-P", programs.__file__, json.dumps(wanted), "9"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    while signal.SIGTERM not in caught(process.pid):
        assert process.poll() is None
    process.send_signal(number)
    said, _ = process.communicate(timeout=20)
    assert (process.returncode, said) == (128 + signal.SIGTERM, "")


def caught(pid: int) -> set[int]:
    """Return the signals for which a process has handlers."""
    [mask] = re.findall(r"^SigCgt:\s*(\w+)$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return {number for number in signal.valid_signals() if int(mask, 16) >> (number - 1) & 1}
