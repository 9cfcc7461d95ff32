"""Runs processes, and starts them again when the code that they run has changed.

1. Start the processes, and wait until they are ready. From now on, look at the code twice a second.
2. If code has changed, ask the processes to end, and go on with step 1 immediately: a process takes a second or two to
   end, and Python takes as long to start. A task that goes on with the old code gets more time. If the code cannot be
   parsed or loaded, or the .env cannot be read, report that, and let the processes go on with the code that they have.
3. If the processes end by themselves before any change, the reloader ends, too. After a change, which is the likely
   cause, the reloader waits for the next change.
"""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Never

from project.checkout import CHECKOUT
from project.processes import changes, procfile, supervisor

MOST_NAMED = 3
OF_ENV = " (of .env: what names servers, WEIR_HOME and the mail server holds from the next `make up` on)"
OF_TASKS = f" A task goes on with the old code: it has {supervisor.FINISH_TIMEOUT_S:g} s, and is killed then."
OF_MIGRATIONS = " (`manage.py migrate` applies migrations)"


@dataclass(kw_only=True)
class Reloader:
    """Starts processes, waits until they are ready, and passes `say` a line about each reload."""

    start: Callable[[], AbstractContextManager[procfile.Processes]]
    wait_until_ready: Callable[[procfile.Processes, Callable[[], None]], None]  # calls its 2nd argument meanwhile
    announce: Callable[[], None]  # called when the processes are ready for the first time
    say: Callable[[str], None]
    refusal_of_env: Callable[[], str]  # returns what the processes would say about .env; "" if they can read it
    refusal_of_code: Callable[[], str]  # returns what one of the processes would say last if it cannot load the code
    keep_servers: Callable[[], None]  # starts servers again that have ended
    _code: changes.Code = field(default_factory=lambda: changes.Code(CHECKOUT))
    _is_announced: bool = False
    _began_at: float = 0.0  # of time.monotonic()
    _ending: list[procfile.Processes] = field(default_factory=list)  # processes that still run earlier code
    _of_ending: ExitStack = field(default_factory=ExitStack)

    def run(self) -> Never:
        """Run until interrupted.

        Before the first change, raise ProcessesEnded if the processes end by themselves, NotReady if they are not ready
        in time.
        """
        with self._of_ending:
            self._run_until_changed()
            while True:
                try:
                    self._run_until_changed()
                except (procfile.ProcessesEnded, procfile.NotReady) as error:
                    reason = str(error) or "One of the processes ended, and the others with it: see above."
                    self.say(f"{reason} All start again when code changes; Ctrl-C stops.")
                    self._wait()

    def _run_until_changed(self) -> None:
        """Run the processes until code has changed, and ask them to end."""
        self._began_at = time.monotonic()
        self._code.starts()
        with ExitStack() as stack:
            running = stack.enter_context(self.start())
            try:
                self._go_on(running)
            except changes.CodeChanged:
                running.finish()
                self._ending.append(running)
                self._of_ending.push(stack.pop_all())
            except KeyboardInterrupt:
                for earlier in self._ending:
                    earlier.end()  # together with the processes that run the newest code
                raise

    def _go_on(self, running: procfile.Processes) -> Never:
        self.wait_until_ready(running, self._check)
        self._say_ready()
        while True:
            running.check()
            self._check()
            time.sleep(procfile.POLL_S)

    def _say_ready(self) -> None:
        if self._is_announced:
            self.say(f"Weir runs again, after {time.monotonic() - self._began_at:.1f} s.{self._still_ending()}")
        else:
            self.announce()
        self._is_announced = True

    def _still_ending(self) -> str:
        self._ending = [earlier for earlier in self._ending if not earlier.end_within(0)]
        return OF_TASKS if self._ending else ""

    def _check(self, *, all_ended: bool = False) -> None:
        """Raise CodeChanged if code has changed, and processes can start with the new code."""
        self.keep_servers()
        try:
            self._code.check(all_ended=all_ended)
        except changes.CodeChanged as changed:
            if told := self._mistakes(changed.paths):
                self.say(told if all_ended else f"{told}\nThe processes go on with the code that they have.")
                return
            self.say(f"{_named(changed.paths)} changed: all processes end and start again.{_hint(changed.paths)}")
            raise

    def _mistakes(self, paths: list[str]) -> str:
        in_env = self.refusal_of_env() if _has_env(paths) else ""
        found = "\n".join(filter(None, (changes.mistakes(paths).rstrip(), in_env)))
        return found or self.refusal_of_code()

    def _wait(self) -> None:
        while True:
            time.sleep(procfile.POLL_S)
            try:
                self._check(all_ended=True)
            except changes.CodeChanged:
                return


def _named(paths: list[str]) -> str:
    names = [str(Path(path).relative_to(CHECKOUT)) for path in paths]
    more = f" and {len(names) - MOST_NAMED} more files" if len(names) > MOST_NAMED else ""
    return f"{', '.join(names[:MOST_NAMED])}{more}"


def _has_env(paths: list[str]) -> bool:
    return any(Path(path).name == ".env" for path in paths)


def _hint(paths: list[str]) -> str:
    has_migrations = any(Path(path).parent.name == "migrations" for path in paths)
    return f"{OF_ENV if _has_env(paths) else ''}{OF_MIGRATIONS if has_migrations else ''}"
