"""A newcomer: a clone of this checkout, a terminal to type into, and more terminals for what runs until Ctrl-C."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from demo.fakes.children import die_with_parent
from project.checkout import CHECKOUT

# What a newcomer's environment has; nothing of this test's, and no variable that Weir or Django reads.
KEPT = re.compile(r"HOME|USER|LOGNAME|SHELL|LANG|LC_\w+|TZ|TMPDIR|XDG_\w+|(PIP|UV)_\w+|\w+_(proxy|PROXY)")
# A terminal's command, in the state in which the one before left its environment and its folder.
REMEMBERING = """
[ -f "$1" ] && . "$1"
trap 'status=$?; { export -p; printf "cd %q\\n" "$PWD"; } > "$1"; exit $status' EXIT
eval "$2"
"""
# A command that goes on until Ctrl-C, in a terminal that was opened beside that one.
BESIDE = '. "$1"; eval "exec $2"'
STOPS_WITHIN_S = 30.0
LONGEST_S = 300.0  # on a machine that has other work; most take a second or two


@dataclass(frozen=True)
class Outcome:
    """How a command ended, and all that it wrote."""

    status: int
    output: str


def clone(folder: Path) -> None:
    """Clone this checkout, with what was changed and not committed: that is committed in the clone."""
    subprocess.run(["git", "clone", "--quiet", CHECKOUT, folder], check=True)
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=CHECKOUT,
        check=True,
        capture_output=True,
        text=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        ours, theirs = CHECKOUT / name, folder / name
        if not ours.exists():
            theirs.unlink(missing_ok=True)
        elif ours.is_symlink():
            theirs.unlink(missing_ok=True)
            theirs.parent.mkdir(parents=True, exist_ok=True)
            theirs.symlink_to(ours.readlink())
        elif not theirs.exists() or ours.read_bytes() != theirs.read_bytes():
            theirs.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ours, theirs)
    who = ["-c", "user.name=newcomer", "-c", "user.email=newcomer@example.com"]
    subprocess.run(["git", "add", "--all"], cwd=folder, check=True)
    subprocess.run(["git", *who, "commit", "--quiet", "--allow-empty", "-m", "As it is"], cwd=folder, check=True)


@dataclass(kw_only=True)
class Newcomer:
    """Works in a clone; `enter` is what each command begins with, and `extra` is added to its environment."""

    folder: Path
    notes: Path  # where logs and the state of the terminal are
    enter: Sequence[str] = ()
    extra: dict[str, str] = field(default_factory=dict)
    terminals: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def _state(self) -> Path:
        return self.notes / "terminal"

    def environment(self) -> dict[str, str]:
        """Return what a newcomer's shell has before anything is typed.

        The output goes to a file, and looks as in a terminal: Python's comes at once, curl shows no progress.
        """
        ours = str(Path(sys.executable).parent)
        path = os.pathsep.join(part for part in os.environ["PATH"].split(os.pathsep) if part != ours)
        kept = {name: value for name, value in os.environ.items() if KEPT.fullmatch(name)}
        terminal = {"TERM": "dumb", "COLUMNS": "120", "PYTHONUNBUFFERED": "1", "CURL_HOME": str(self.notes)}
        return {**kept, "PATH": path, **terminal, **self.extra}

    def open_terminal(self, *typed: str) -> None:
        """Open a new one in the clone, and type this first."""
        (self.notes / ".curlrc").write_text("silent\nshow-error\n")
        self._state.write_text(f"cd {shlex.quote(str(self.folder))}\n")
        for line in typed:
            outcome = self.type(line)
            assert outcome.status == 0, outcome.output

    def type(self, command: str, given: str = "") -> Outcome:
        """Run a command and wait for its end; `given` is its standard input."""
        with (self.notes / "output").open("w+b") as output:
            process = self._begin(REMEMBERING, command, output.fileno(), subprocess.PIPE)
            assert process.stdin is not None
            process.stdin.write(given.encode())
            process.stdin.close()
            try:
                status = process.wait(LONGEST_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                status = process.wait()
            output.seek(0)
            return Outcome(status, output.read().decode(errors="replace"))

    def start(self, command: str, shows: str) -> Outcome:
        """Run a command in a terminal of its own until it shows these words; it goes on. What ran there is stopped."""
        self.stop(command)
        with self._log(command).open("wb") as output:
            process = self.terminals[command] = self._begin(BESIDE, command, output.fileno(), subprocess.DEVNULL)
        give_up_at = time.monotonic() + LONGEST_S
        while shows not in self.shown(command):
            status = process.poll()
            if status is not None or time.monotonic() > give_up_at:
                return Outcome(status or 1, self.shown(command))
            time.sleep(0.05)
        return Outcome(0, self.shown(command))

    def shown(self, command: str) -> str:
        """Return what the terminal shows in which this command was started."""
        return self._log(command).read_text(errors="replace")

    def terminal_of(self, command: str) -> str:
        """Return the command that runs in a terminal and begins so; empty if there is none."""
        return next((running for running in self.terminals if running.startswith(command)), "")

    def _log(self, command: str) -> Path:
        return self.notes / (re.sub(r"\W+", "-", command)[:60] + ".log")

    def stop(self, command: str) -> None:
        """Press Ctrl-C in the terminal of this command, and wait for its end."""
        self._stop([command])

    def stop_all(self, *, but: str = "\0") -> None:
        """Press Ctrl-C in all terminals, but for those with a command that begins so."""
        self._stop([command for command in self.terminals if not command.startswith(but)])

    def _stop(self, commands: Sequence[str]) -> None:
        processes = [self.terminals.pop(command) for command in commands if command in self.terminals]
        for process in processes:
            with suppress(ProcessLookupError):  # it has ended by itself
                os.killpg(process.pid, signal.SIGINT)
        for process in processes:
            try:
                process.wait(STOPS_WITHIN_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def _begin(self, script: str, command: str, output: int, given: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [*self.enter, "bash", "-c", script, "bash", str(self._state), command],
            cwd=self.folder,
            env=self.environment(),
            stdin=given,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=die_with_parent,  # noqa: PLW1509 -- no other thread runs here
        )
