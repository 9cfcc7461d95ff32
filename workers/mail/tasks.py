"""The tasks of e-mails."""

from celery import shared_task

from weir.workers import task_names
from weir.workers.mail import outbox
from weir.workers.mail.maintenance import purge
from weir.workers.mail.sending import leases, runner
from weir.workers.pools import serial

TURN_S = 2.0  # how long one task sends; the rest is left to the next task, so that a worker can stop in between
EXPIRING_S = 1.0  # how long expired e-mails are ended before others are sent: very many may have expired


@shared_task(name=task_names.SEND_EMAILS, **task_names.OPTIONS)
@serial.run_in(serial.MAIL)
def send_emails() -> None:
    """End the expired e-mails, whatever they wait for, and send the e-mails that are due.

    It is safe to run this task twice, at the same time, or late, and to kill it anywhere.
    """
    leases.end_expired(EXPIRING_S)
    if runner.send_due(at_most_s=TURN_S).is_out_of_time:
        outbox.wake_mailer()


@shared_task(name=task_names.PURGE_EMAILS, **task_names.OPTIONS)
@serial.run_in(serial.MAINTENANCE)
def purge_emails() -> None:
    """Delete old contents of e-mails, and end expired e-mails even if no mailer runs.

    It is safe to run this task twice, at the same time, or late, and to kill it anywhere.
    """
    leases.end_expired(EXPIRING_S)
    purge.purge(within_s=purge.WITHIN_S)
