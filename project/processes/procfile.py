"""Runs processes of the Procfile and of Procfile.split side by side; all stop when the block that runs them is left.

The processes also stop when the process that runs the block is killed (`supervisor.py`). They have a session of their
own, so that Ctrl-C reaches only the process that started them, which stops them in order.
"""

import http.client
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import honcho.environ
from celery import Celery

from project.checkout import CHECKOUT
from project.processes import programs, supervisor

POLL_S = 0.1
READY_TIMEOUT_S = 60.0
ANSWER_TIMEOUT_S = 1.0
DEFAULT_PORT = 5000  # honcho's
NAME_WIDTH = len("maintenance.1")
_ENDS_WITHIN_S = supervisor.STOP_TIMEOUT_S + 2 * supervisor.KILL_TIMEOUT_S


class ProcessesEnded(Exception):
    """One of the processes ended, and honcho has stopped the others."""


class NotReady(Exception):
    """A condition did not become true in time; the message names the condition."""


@dataclass(frozen=True, kw_only=True)
class Processes:
    """Processes that are running; `names` are honcho's, such as `fetcher.2`."""

    names: tuple[str, ...]
    _supervisor: subprocess.Popen[bytes]

    @property
    def workers(self) -> tuple[str, ...]:
        """The names of those that are Celery workers: the part before the @ in Celery's own names."""
        known = lines()
        return tuple(name for name in self.names if " worker " in known.get(name.partition(".")[0], ""))

    def pids(self) -> list[int]:
        """Return the ids of all processes, including those of Celery's pools. Linux only."""
        return supervisor.descendants(self._supervisor.pid)

    def end(self) -> None:
        """Ask the processes to end, without waiting; leaving their block waits."""
        self._supervisor.terminate()

    def finish(self) -> None:
        """Ask the processes to end, without waiting; running tasks have `supervisor.FINISH_TIMEOUT_S` to finish."""
        self._supervisor.send_signal(signal.SIGHUP)

    def end_within(self, seconds: float) -> bool:
        """Return True as soon as the processes have ended, or False after this many seconds."""
        try:
            self._supervisor.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def check(self) -> None:
        """Raise ProcessesEnded if the processes have ended."""
        if self._supervisor.poll() is not None:
            raise ProcessesEnded

    def wait(self) -> None:
        """Wait until the processes have ended."""
        self._supervisor.wait()

    def wait_until(self, ready: Callable[[], bool], what: str) -> None:
        """Return as soon as `ready()` is true.

        Raises ProcessesEnded if the processes end before, and NotReady, with `what` in its message, after
        `READY_TIMEOUT_S`.
        """
        give_up_at = time.monotonic() + READY_TIMEOUT_S
        while not ready():
            self.check()
            if time.monotonic() > give_up_at:
                raise NotReady(f"After {READY_TIMEOUT_S:g} s {what}.")
            time.sleep(POLL_S)


def lines() -> dict[str, str]:
    """Return the lines of the Procfile, and of Procfile.split, which has the processes of larger installations.

    The keys are the names of the lines; a line that is the same in both files has the same name.
    """
    found: dict[str, str] = {}
    for name in ("Procfile.split", "Procfile"):
        found |= honcho.environ.parse_procfile((CHECKOUT / name).read_text()).processes
    return found


@contextmanager
def running(env: Mapping[str, str], *, counts: Mapping[str, int], log: Path | None = None) -> Iterator[Processes]:
    """Run this many processes of each kind, such as `{"web": 1, "fetcher": 2}`.

    `env` is the environment of the processes. The first kind listens on the PORT in `env`; honcho adds 100 for each
    further kind. The output goes to the output of this process, or is appended to `log`. Leaving the block asks the
    processes to end, and kills those that have not ended after `supervisor.STOP_TIMEOUT_S`.
    """
    wanted = _programs(counts, int(env.get("PORT") or DEFAULT_PORT))
    with _supervised(_running(wanted), env, log) as process:
        yield Processes(names=tuple(program.name for program in wanted), _supervisor=process)


@contextmanager
def beside(env: Mapping[str, str], name: str, command: list[str]) -> Iterator[Processes]:
    """Run one more process, whose output looks like that of the others; it stops when this block is left."""
    program = programs.Program(name, shlex.join(command), {}, colour=len(lines()))
    with _supervised(_running([program]), env) as process:
        yield Processes(names=(name,), _supervisor=process)


def release(env: Mapping[str, str]) -> bool:
    """Run the Procfile's `release` line; return whether it succeeded."""
    with _supervised(["/bin/sh", "-c", lines()["release"]], env) as process:
        return process.wait() == 0


def succeeds(command: list[str], env: Mapping[str, str], *, log: Path, within_s: float) -> bool:
    """Run a command; return whether it succeeded within this many seconds. Its output is appended to `log`."""
    with _supervised(command, env, log) as process:
        try:
            return process.wait(within_s) == 0
        except subprocess.TimeoutExpired:
            return False


@contextmanager
def _supervised(
    command: list[str], env: Mapping[str, str], log: Path | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    path = os.pathsep.join((str(Path(sys.executable).parent), env.get("PATH", os.defpath)))
    with log.open("ab") if log else nullcontext() as output:
        process = subprocess.Popen(  # noqa: S603 -- our own commands, no shell
            [sys.executable, "-P", supervisor.__file__, str(os.getpid()), *command],
            cwd=CHECKOUT,
            env={**env, "PATH": path, "PYTHONUNBUFFERED": "1"},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT if output else None,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(_ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _programs(counts: Mapping[str, int], port: int) -> list[programs.Program]:
    known = lines()
    wanted = {kind: known[kind] for kind, count in counts.items() if count}
    expanded = honcho.environ.expand_processes(wanted, concurrency=counts, port=port)
    return [programs.Program(one.name, one.cmd, one.env, colour) for colour, one in enumerate(expanded)]


def _running(wanted: list[programs.Program]) -> list[str]:
    return [sys.executable, "-P", programs.__file__, json.dumps(wanted), str(NAME_WIDTH)]


def web_answers(host: str, port: int) -> bool:
    """Return whether the web process answers, whatever the status of the answer is."""
    connection = http.client.HTTPConnection(host, port, timeout=ANSWER_TIMEOUT_S)
    try:
        connection.request("GET", "/healthz")
        connection.getresponse()
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
    return True


def workers_answer(app: Celery, names: Iterable[str]) -> bool:
    """Return whether all these workers answer a ping through the broker within `ANSWER_TIMEOUT_S`."""
    expected = set(names)
    replies = app.control.ping(timeout=ANSWER_TIMEOUT_S, limit=len(expected))
    return expected <= {worker.partition("@")[0] for reply in replies or () for worker in reply}
