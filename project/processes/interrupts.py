"""Signals that end a command: the first one raises an exception, so that the command stops what it has started."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(KeyboardInterrupt):
    """A signal asked the command to end; `exit_code` is the exit status that shells expect then."""

    def __init__(self, signum: int) -> None:
        super().__init__()
        self.exit_code = 128 + signum


@contextmanager
def raised_once() -> Iterator[None]:
    """Raise Interrupted at the first SIGINT, SIGTERM or SIGHUP; ignore later signals, so that none interrupts the stop.

    Use it in the main thread, around all code that has something to stop.
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
    """Ignore the signals of `raised_once` from now on, because the command is already stopping."""
    for signum in _ENDING:
        signal.signal(signum, lambda *_: None)  # not SIG_IGN: programs started later would inherit that


@contextmanager
def hidden_from_children() -> Iterator[None]:
    """Keep Ctrl-C from programs that are started in the block. This process gets the signal, and stops them in order.

    A Ctrl-C during the block takes effect at its end.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
