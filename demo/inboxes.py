"""The users' process as the observer sees it: what the users did, and how many unread numbers drifted."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from demo import programs, users
from demo.figures import Unread
from weir.postgres.statements import Statement


class Flushes(NamedTuple):
    """How many flushes wrote deltas to PostgreSQL, and how many rows."""

    flushes: int
    rows_written: int


FLUSHES = Statement("flushes", row=Flushes, commits=True)


@dataclass(frozen=True, kw_only=True)
class Inboxes:
    """The users' inboxes, while the users act or after they have stopped."""

    program: programs.Program
    _state: Path

    def have_begun(self) -> bool:
        """Return whether the users have written their state. RuntimeError if their process has ended by itself."""
        self.program.check()
        return self._state.exists()

    def look(self) -> Unread:
        """Return the state so far; once the users have stopped, check all unread numbers again."""
        state = json.loads(self._state.read_text())
        drifted = set(state.pop("drifted"))
        if self.program.has_stopped:
            drifted |= users.drifted(users.USER_IDS)
        [row] = FLUSHES()
        return Unread(
            **state, unread_flushes=row.flushes, unread_rows_written=row.rows_written, unread_drift=len(drifted)
        )


@contextmanager
def running(folder: Path, log: Path) -> Iterator[Inboxes]:
    """Run the users, whose state is written to `folder` and whose output is appended to `log`; stop them on leaving.

    RuntimeError if their process ends with an error.
    """
    state = folder / "users.json"
    with programs.running("users", str(state), log=log) as program:
        yield Inboxes(program=program, _state=state)
