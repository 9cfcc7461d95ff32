"""Makes log lines of what a task prints, with the task's name, at the level INFO; on stderr, WARNING.

Celery's own redirection logs each piece that `print` writes, all at one level, without the task's name.
"""

import io
import logging
import sys
import threading
from typing import Any

import structlog
from celery.signals import celeryd_after_setup, task_postrun, task_prerun, worker_process_init

_LEVELS = {"stdout": logging.INFO, "stderr": logging.WARNING}


class LoggedLines(io.TextIOBase):
    """Logs each line that is written to it. A line without its end waits; each thread has its own."""

    def __init__(self, logger: logging.Logger, level: int) -> None:
        super().__init__()
        self._logger = logger
        self._level = level
        self._thread = threading.local()

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        """Log the lines that are whole now. What the logging itself prints when it fails is left out."""
        if not getattr(self._thread, "is_logging", False):
            *whole, self._thread.rest = (self._rest() + text).split("\n")
            self._log(whole)
        return len(text)

    def end_line(self) -> None:
        """Log what this thread has written since its last whole line."""
        rest, self._thread.rest = self._rest(), ""
        self._log([rest])

    def _rest(self) -> str:
        return getattr(self._thread, "rest", "")

    def _log(self, lines: list[str]) -> None:
        self._thread.is_logging = True
        try:
            for line in filter(str.strip, lines):
                self._logger.log(self._level, "%s", line.rstrip())
        finally:
            self._thread.is_logging = False


def log_what_tasks_print() -> None:
    """Make workers log what is printed in them; the children of a pool are forked with that, or begin with it."""
    celeryd_after_setup.connect(_redirect)
    worker_process_init.connect(_redirect)
    task_prerun.connect(_name_the_task)
    task_postrun.connect(_end_the_task)


def _redirect(**_signal: object) -> None:
    for name, level in _LEVELS.items():
        if not isinstance(getattr(sys, name), LoggedLines):
            setattr(sys, name, LoggedLines(logging.getLogger(name), level))


def _name_the_task(task: Any, **_signal: object) -> None:  # noqa: ANN401  Celery's own have no types
    structlog.contextvars.bind_contextvars(task=task.name)


def _end_the_task(**_signal: object) -> None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, LoggedLines):
            stream.end_line()
    structlog.contextvars.unbind_contextvars("task")
