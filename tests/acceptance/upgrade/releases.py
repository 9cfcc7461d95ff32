"""Processes of two versions of Weir, each by the lines of its own Procfile and with its own code."""

import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import honcho.environ

from demo.fakes.children import die_with_parent
from tests.own_servers import Server
from tests.valkeys import free_port
from tests.waiting import wait_for

LOAD = Path(__file__).with_name("load.py")
WEB, BEAT, CODE = "web", "beat", "load"  # CODE: web code that asks for work
READY = re.compile(r"ready\.|\"code\"")
ENDS_WITHIN_S = 30
SHOW_FILES = "import project, weir; print(project.__path__[0], weir.__path__[0])"


@dataclass(frozen=True, kw_only=True)
class Release:
    """A version of Weir: a folder with its code, and the environment that its processes have in common."""

    name: str
    folder: Path
    servers: dict[str, str]

    @property
    def environment(self) -> dict[str, str]:
        """Return what has Python import this version's code, though another one is installed."""
        path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
        django = {"DJANGO_SETTINGS_MODULE": "project.settings", "PYTHONUNBUFFERED": "1"}
        return {**os.environ, **self.servers, **django, "PATH": path, "PYTHONPATH": str(self.folder)}

    def imported(self) -> set[Path]:
        """Return the folders above the packages that its processes import."""
        return {Path(path).parent for path in self.python(SHOW_FILES).split()}

    def python(self, program: str) -> str:
        """Run a program with its code; returns what that prints."""
        return self._run(sys.executable, "-c", program)

    def manage(self, *arguments: str, statuses: Container[int] = (0,)) -> str:
        """Run `manage.py`, which must end with one of these."""
        return self._run(sys.executable, "manage.py", *arguments, statuses=statuses)

    def release(self) -> None:
        """Do what the Procfile's line `release` does."""
        assert self.line("release") == "python manage.py migrate --no-input && python manage.py sync_schedule"
        self.manage("migrate", "--no-input")
        self.manage("sync_schedule")

    def line(self, kind: str) -> str:
        """Return what its Procfile has for a kind of process."""
        for name in ("Procfile.split", "Procfile"):  # earlier releases have only the second
            path = self.folder / name
            known = honcho.environ.parse_procfile(path.read_text()).processes if path.exists() else {}
            if kind in known:
                found: str = known[kind]
                return found
        raise LookupError(f"No Procfile of {self.folder} has {kind}.")

    def _run(self, *command: str, statuses: Container[int] = (0,)) -> str:
        done = subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False
        )
        assert done.returncode in statuses, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done.stdout


@dataclass(kw_only=True)
class Process:
    """A process that runs, or did."""

    kind: str
    release: Release
    log: Path
    port: int
    process: subprocess.Popen[bytes]
    server: Server

    def is_ready(self) -> bool:
        """Tell whether it works."""
        assert self.process.poll() is None, f"{self.log} says why it ended"
        if self.kind == WEB:
            return self.answers("/healthz") == 200
        if self.kind == BEAT:  # one that stands by, too
            return bool(self.server.query(f"SELECT 1 FROM weir_processes_process WHERE name LIKE '{self.log.stem}@%'"))
        return bool(READY.search(self.log.read_text(errors="replace")))

    def answers(self, path: str) -> int:
        """Return the status with which this web process answers, 0 where it does not."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return 0

    def end(self) -> None:
        """Let it end in order."""
        self.process.send_signal(signal.SIGTERM)
        orderly = -signal.SIGTERM if self.kind == WEB else 0  # uvicorn ends by the signal, when all is done
        assert self.process.wait(ENDS_WITHIN_S) == orderly, f"{self.log} says why it ended otherwise"


@dataclass(kw_only=True)
class Fleet:
    """All processes, of both versions."""

    folder: Path
    server: Server
    rates: dict[str, int]
    running: list[Process] = field(default_factory=list)
    ended: list[Process] = field(default_factory=list)

    def launch(self, release: Release, kind: str) -> Process:
        """Start a process, and do not wait for it."""
        number = len(self.running) + len(self.ended)
        name = f"{number:02}-{release.name}-{kind}"
        port = free_port()
        environment = {**release.environment, "HONCHO_PROCESS_NAME": name, "PORT": str(port)}
        log = self.folder / f"{name}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                self._command(release, kind, name),
                cwd=release.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=die_with_parent,  # noqa: PLW1509 -- no other thread runs here
            )
        made = Process(kind=kind, release=release, log=log, port=port, process=process, server=self.server)
        self.running.append(made)
        return made

    def start(self, release: Release, *kinds: str) -> None:
        """Start processes, and wait until they work."""
        for process in [self.launch(release, kind) for kind in kinds]:
            wait_for(process.is_ready, 60, f"{process.kind}: {process.log}")

    def replace(self, kinds: Sequence[str], release: Release) -> Iterator[str]:
        """Replace the processes of these kinds by those of another version; yields while both run."""
        before = [process for process in self.running if process.kind in kinds]
        self.start(release, *kinds)
        yield f"{kinds[0] if len(kinds) == 1 else 'all'} of both"
        for process in before:
            self._end(process)

    def of(self, kind: str) -> list[Process]:
        """Return all processes of a kind that ever ran."""
        return [process for process in self.ended + self.running if process.kind == kind]

    def rounds(self) -> list[dict[str, Any]]:
        """Return what web code has printed, in the order of time."""
        lines = [line for process in self.of(CODE) for line in process.log.read_text().splitlines()]
        return sorted((json.loads(line) for line in lines if line.startswith('{"at"')), key=lambda line: line["at"])

    def end(self, *kinds: str) -> None:
        """Let all processes of these kinds end in order."""
        for process in [running for running in self.running if running.kind in kinds]:
            self._end(process)

    def stop(self) -> None:
        """Kill what still runs."""
        for process in self.running:
            if process.process.poll() is None:
                os.killpg(process.process.pid, signal.SIGKILL)
                process.process.wait()

    def _end(self, process: Process) -> None:
        process.end()
        self.running.remove(process)
        self.ended.append(process)

    def _command(self, release: Release, kind: str, name: str) -> Sequence[str]:
        if kind == CODE:
            rates = json.dumps(self.rates)
            return [sys.executable, "-P", str(LOAD), name.replace("-", ""), str(self.folder / "lock"), rates]
        return ["/bin/sh", "-c", f"exec {release.line(kind)}"]
