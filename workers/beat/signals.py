"""The signal of a beat that begins, and what the operating system's do to one that is a process."""

from celery import platforms
from celery.signals import beat_init
from django.dispatch import Signal

# Sent with `app` (the Celery app) before the scheduler asks the database anything: SystemExit of a receiver ends beat.
beat_begins = Signal()


@beat_init.connect
def _have_signals_only_interrupt(**_signal: object) -> None:
    """Have SIGTERM and SIGINT raise SystemExit, on which Celery closes the scheduler.

    Celery's own handler closes it, on top of what the signal has interrupted. Where that is a statement, or what else
    holds a lock, it would wait for it without end. In a thread of a worker, this does nothing.
    """
    platforms.signals.update(SIGTERM=_leave, SIGINT=_leave)


def _leave(*_signal: object) -> None:
    platforms.signals.update(SIGTERM=_go_on, SIGINT=_go_on)  # a second one does not interrupt the end
    raise SystemExit


def _go_on(*_signal: object) -> None:
    pass
