"""The end of a process in which something hangs that cannot be interrupted: its supervisor starts another."""

import logging
import os
import signal
import threading
import time
from collections.abc import Iterator
from typing import Final, NoReturn

from weir.logs.loggers import get_logger

LOOK_EVERY_S: Final = 1.0
SPARE_S: Final = 8.0  # beyond PostgreSQL's own time-out for a statement, before its caller counts as hanging
LAST_WORDS_S: Final = 2.0  # how long the end of the process waits for the log
EX_SOFTWARE: Final = 70  # the exit status, as in BSD's sysexits.h

log = get_logger(__name__)


def end_process(event: str, error: BaseException | None = None, **said: str) -> NoReturn:
    """Log the event and what is said of it, and end this process immediately. From any thread.

    If the log takes nothing, because its pipe is not read, the kernel ends the process without the last words.
    """
    signal.setitimer(signal.ITIMER_REAL, LAST_WORDS_S)
    log.critical(event, **said, exc_info=error)
    logging.shutdown()
    os._exit(EX_SOFTWARE)


def looks(until: threading.Event) -> Iterator[float]:
    """Yield every LOOK_EVERY_S, until the event is set, for how many seconds the whole process stood still meanwhile.

    It was stopped, or its host was suspended: nothing in it hangs because of that.
    """
    looked_at = time.monotonic()
    while not until.wait(LOOK_EVERY_S):
        stood_still_s = time.monotonic() - looked_at - LOOK_EVERY_S
        looked_at = time.monotonic()
        yield max(0.0, stood_still_s)
