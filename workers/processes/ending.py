"""Ends a process in which something hangs that cannot be interrupted, so that its supervisor starts another."""

import logging
import os
import signal
import threading
import time
from collections.abc import Iterator
from typing import Final, NoReturn

from weir.logs.loggers import get_logger

LOOK_EVERY_S: Final = 1.0
SPARE_S: Final = 8.0  # how much longer than a statement's time limit its caller may take
LAST_WORDS_S: Final = 2.0  # how long the process waits for its last log line to be written
EX_SOFTWARE: Final = 70  # the exit status, as in BSD's sysexits.h

log = get_logger(__name__)


def end_process(event: str, error: BaseException | None = None, **said: str) -> NoReturn:
    """Log the event with the values in `said`, and end this process immediately. May be called in any thread.

    If the log line cannot be written, because no program reads the pipe, a timer's signal ends the process.
    """
    signal.setitimer(signal.ITIMER_REAL, LAST_WORDS_S)
    log.critical(event, **said, exc_info=error)
    logging.shutdown()
    os._exit(EX_SOFTWARE)


def looks(until: threading.Event) -> Iterator[float]:
    """Yield, every LOOK_EVERY_S until the event is set, for how many seconds the whole process stood still meanwhile.

    A process stands still if it is stopped, or its host is suspended: that does not mean that a part of it hangs.
    """
    looked_at = time.monotonic()
    while not until.wait(LOOK_EVERY_S):
        stood_still_s = time.monotonic() - looked_at - LOOK_EVERY_S
        looked_at = time.monotonic()
        yield max(0.0, stood_still_s)
