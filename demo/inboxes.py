"""The users' inboxes: what is known of their unread numbers."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from demo import programs, users
from demo.figures import Unread
from postgres import statements


@dataclass(frozen=True, kw_only=True)
class Inboxes:
    """The inboxes of users who are at work, or have stopped."""

    program: programs.Program
    _state: Path

    def have_begun(self) -> bool:
        """Tell whether there is something to look at. Raises RuntimeError where the users ended by themselves."""
        self.program.check()
        return self._state.exists()

    def look(self) -> Unread:
        """Return what came of it so far; when they have stopped, everybody's number is checked once more."""
        state = json.loads(self._state.read_text())
        drifted = set(state.pop("drifted"))
        if self.program.has_stopped:
            drifted |= users.drifted(users.EVERYBODY)
        row = statements.run("demo", "flushes", {})[0]
        return Unread(
            **state, unread_flushes=row.flushes, unread_rows_written=row.rows_written, unread_drift=len(drifted)
        )


@contextmanager
def running(folder: Path, log: Path) -> Iterator[Inboxes]:
    """Have users begin, who say in `folder` what came of it, and append to `log`; end them on leaving.

    RuntimeError if they end with an error.
    """
    state = folder / "users.json"
    with programs.running("users", str(state), log=log) as program:
        yield Inboxes(program=program, _state=state)
