"""Runs processes, and starts them again when the code that they run has changed.

1. Start them, and wait until they are ready. Look at the code twice a second from now on.
2. Code has changed, and Python can parse it: ask them to end, give their tasks time for that, and go on with 1. What it
   cannot parse is told, and they go on with the code that they have.
3. They end by themselves: so does this; but after a change, which is the likely cause, it waits for the next one.
"""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Never

from project.checkout import CHECKOUT
from project.processes import changes, procfile, supervisor

MOST_NAMED = 3
PATIENT_AFTER_S = 4.0  # it is said what is waited for
OF_ENV = " (of .env: what names servers, WEIR_HOME and the mail server holds from the next `make up` on)"
OF_MIGRATIONS = " (`manage.py migrate` applies migrations)"


@dataclass(kw_only=True)
class Reloader:
    """Starts processes, waits until they are ready, and says a line about each reload."""

    start: Callable[[], AbstractContextManager[procfile.Processes]]
    wait_until_ready: Callable[[procfile.Processes, Callable[[], None]], None]  # the latter is to be called meanwhile
    announce: Callable[[], None]  # called when they are ready for the first time
    say: Callable[[str], None]
    _code: changes.Code = field(default_factory=lambda: changes.Code(CHECKOUT))
    _is_announced: bool = False
    _began_at: float = 0.0  # of time.monotonic()

    def run(self) -> Never:
        """Raise ProcessesEnded once they end by themselves, NotReady if they do not get ready, before any change."""
        self._run_until_changed()
        while True:
            try:
                self._run_until_changed()
            except (procfile.ProcessesEnded, procfile.NotReady) as error:
                reason = str(error) or "One of the processes ended, and the others with it: see above."
                self.say(f"{reason} All start again when code changes; Ctrl-C stops.")
                self._wait()

    def _run_until_changed(self) -> None:
        """Run them until code has changed, and they have ended in order."""
        self._began_at = time.monotonic()
        self._code.starts()
        with self.start() as running:
            try:
                self.wait_until_ready(running, self._check)
                self._say_ready()
                while True:
                    running.check()
                    self._check()
                    time.sleep(procfile.POLL_S)
            except changes.Changed:
                self._finish(running)

    def _say_ready(self) -> None:
        if self._is_announced:
            self.say(f"Weir runs again, after {time.monotonic() - self._began_at:.1f} s.")
        else:
            self.announce()
        self._is_announced = True

    def _check(self) -> None:
        """Raise Changed if code has changed that Python can parse."""
        try:
            self._code.check()
        except changes.Changed as changed:
            if told := changes.mistakes(changed.paths):
                self.say(f"{told}The processes go on with the code that they have.")
                return
            self.say(f"{_named(changed.paths)} changed: all processes end and start again.{_hint(changed.paths)}")
            raise

    def _wait(self) -> None:
        while True:
            time.sleep(procfile.POLL_S)
            try:
                self._check()
            except changes.Changed:
                return

    def _finish(self, running: procfile.Processes) -> None:
        running.finish()
        if not running.end_within(PATIENT_AFTER_S):
            self.say(
                f"Not all have ended: a task that goes on has {supervisor.FINISH_TIMEOUT_S:g} s, and is killed then."
            )
        running.wait()


def _named(paths: list[str]) -> str:
    names = [str(Path(path).relative_to(CHECKOUT)) for path in paths]
    more = f" and {len(names) - MOST_NAMED} more files" if len(names) > MOST_NAMED else ""
    return f"{', '.join(names[:MOST_NAMED])}{more}"


def _hint(paths: list[str]) -> str:
    has_env = any(Path(path).name == ".env" for path in paths)
    has_migrations = any(Path(path).parent.name == "migrations" for path in paths)
    return f"{OF_ENV if has_env else ''}{OF_MIGRATIONS if has_migrations else ''}"
