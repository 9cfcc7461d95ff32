"""The Django signal of a beat that begins, and the handling of SIGTERM and SIGINT in a process of beat."""

from celery import platforms
from celery.signals import beat_init
from django.dispatch import Signal

# Sent with `app` (the Celery app) before the scheduler asks the database anything: a receiver's SystemExit ends beat.
beat_begins = Signal()


@beat_init.connect
def _have_signals_only_interrupt(**_signal: object) -> None:
    """Make SIGTERM and SIGINT raise SystemExit, after which Celery closes the scheduler.

    Celery's own handler closes the scheduler while the interrupted code is still on the stack. If that code executes a
    statement, or holds another lock, the handler would wait for it forever. In a thread of a worker, this does nothing.
    """
    platforms.signals.update(SIGTERM=_leave, SIGINT=_leave)


def _leave(*_signal: object) -> None:
    platforms.signals.update(SIGTERM=_go_on, SIGINT=_go_on)  # a second signal does not interrupt the shutdown
    raise SystemExit


def _go_on(*_signal: object) -> None:
    pass
