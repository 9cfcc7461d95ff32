"""The tasks of e-mails."""

from celery import shared_task

from weir.workers import task_names
from weir.workers.mail import outbox
from weir.workers.mail.maintenance import purge
from weir.workers.mail.sending import leases, runner
from weir.workers.pools import serial

TURN_S = 2.0  # after that the rest is left to the next task, so that a worker that is to stop can do so
EXPIRING_S = 1.0  # before e-mails are sent: very many may have expired while they waited


@shared_task(name=task_names.SEND_EMAILS, **task_names.OPTIONS)
@serial.run_in(serial.MAIL)
def send_emails() -> None:
    """End the e-mails whose time is over, whatever they wait for, and send those that are due.

    Safe to run twice, together, or late, and may be killed anywhere.
    """
    leases.end_expired(EXPIRING_S)
    if runner.send_due(at_most_s=TURN_S).is_out_of_time:
        outbox.wake_mailer()


@shared_task(name=task_names.PURGE_EMAILS, **task_names.OPTIONS)
@serial.run_in(serial.MAINTENANCE)
def purge_emails() -> None:
    """Delete old contents of e-mails, and end those whose time is over, even if no mailer runs.

    Safe to run twice, together, or late, and may be killed anywhere.
    """
    leases.end_expired(EXPIRING_S)
    purge.purge(within_s=purge.WITHIN_S)
