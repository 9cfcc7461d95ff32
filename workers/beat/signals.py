"""The signal of a beat that begins, and what the operating system's signals do to one that is a process."""

from celery import platforms
from celery.signals import beat_init
from django.dispatch import Signal

# Sent with `app` (the Celery app) before the scheduler asks the database anything: a receiver's SystemExit ends beat.
beat_begins = Signal()


@beat_init.connect
def _have_signals_only_interrupt(**_signal: object) -> None:
    """Make SIGTERM and SIGINT raise SystemExit, on which Celery closes the scheduler.

    Celery's own handler closes it on top of the code that the signal has interrupted. If that is a statement, or other
    code that holds a lock, the handler would wait for it forever. In a thread of a worker, this does nothing.
    """
    platforms.signals.update(SIGTERM=_leave, SIGINT=_leave)


def _leave(*_signal: object) -> None:
    platforms.signals.update(SIGTERM=_go_on, SIGINT=_go_on)  # a second signal does not interrupt the end
    raise SystemExit


def _go_on(*_signal: object) -> None:
    pass
