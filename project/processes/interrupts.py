"""Signals that end a command: an exception once, so that everything it started is stopped in order."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(KeyboardInterrupt):
    """Somebody wants the command to end; `exit_code` is what shells expect then."""

    def __init__(self, signum: int) -> None:
        super().__init__()
        self.exit_code = 128 + signum


@contextmanager
def raised_once() -> Iterator[None]:
    """Raise Interrupted at the first of SIGINT, SIGTERM and SIGHUP; later ones disturb nobody's stopping.

    For the main thread, around everything that has something to stop.
    """

    def end(signum: int, _frame: FrameType | None) -> None:
        ignore()
        raise Interrupted(signum)

    before = {signum: signal.signal(signum, end) for signum in _ENDING}
    try:
        yield
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)


def ignore() -> None:
    """Let these signals pass from here on, because the stopping has begun anyway."""
    for signum in _ENDING:
        signal.signal(signum, lambda *_: None)  # not SIG_IGN, which programs started later would inherit


@contextmanager
def hidden_from_children() -> Iterator[None]:
    """Have programs that are started in the block never see a Ctrl-C: it is for us, who stop them in order.

    One that comes meanwhile reaches us at the end of the block.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
