"""The users of the demo's inboxes: a process of their own, and what is known of their unread numbers."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from postgres import statements
from project.demo import users
from project.demo.figures import Unread
from project.demo.home import CHECKOUT

STOP_TIMEOUT_S = 4.0
# Models can be imported only when Django is set up, so the module cannot simply be run.
START = """
from project.demo.sites import die_with_parent
die_with_parent()
import django
django.setup()
from project.demo import users
users.main()
"""


@dataclass(frozen=True, kw_only=True)
class Inboxes:
    """Users who are at work, or have stopped."""

    _process: subprocess.Popen[bytes]
    _state: Path
    _log: Path

    def have_begun(self) -> bool:
        """Tell whether there is something to look at."""
        return self._state.exists()

    def check(self) -> None:
        """Raise RuntimeError if they ended by themselves."""
        if self._process.poll() is not None:
            raise RuntimeError(f"The demo's users ended: their last words are in {self._log}.")

    def stop(self) -> None:
        """Have them finish what they are doing, and end."""
        self._process.terminate()
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def look(self) -> Unread:
        """Return what came of it so far; when they have stopped, everybody's number is checked once more."""
        state = json.loads(self._state.read_text())
        drifted = set(state.pop("drifted"))
        if self._process.poll() is not None:
            drifted |= users.drifted(users.EVERYBODY)
        row = statements.run("project.demo", "flushes", {})[0]
        return Unread(
            **state, unread_flushes=row.flushes, unread_rows_written=row.rows_written, unread_drift=len(drifted)
        )


@contextmanager
def running(folder: Path, log: Path) -> Iterator[Inboxes]:
    """Have users begin, who say in `folder` what came of it, and append to `log`; end them on leaving.

    RuntimeError if they end with an error.
    """
    state = folder / "users.json"
    with log.open("ab") as output:
        process = subprocess.Popen(  # noqa: S603 our own code
            [sys.executable, "-c", START, str(state)],
            cwd=CHECKOUT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    inboxes = Inboxes(_process=process, _state=state, _log=log)
    try:
        yield inboxes
    finally:
        inboxes.stop()
    if process.returncode:
        inboxes.check()
