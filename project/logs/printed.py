"""Logs what a task prints, with the task's name: lines on stdout at the level INFO, lines on stderr at WARNING.

Celery's own redirection logs each piece that `print` writes, always at the same level, without the task's name.
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
    """A stream that logs each line written to it. It keeps the incomplete last line of each thread."""

    def __init__(self, logger: logging.Logger, level: int) -> None:
        super().__init__()
        self._logger = logger
        self._level = level
        self._thread = threading.local()

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        """Log the lines that are complete now. Output of the logging itself, when that fails, is dropped."""
        if not getattr(self._thread, "is_logging", False):
            *whole, self._thread.rest = (self._rest() + text).split("\n")
            self._log(whole)
        return len(text)

    def end_line(self) -> None:
        """Log the text that this thread has written since its last complete line."""
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
    """Make workers, and the child processes of their pools, log what is printed in them."""
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
