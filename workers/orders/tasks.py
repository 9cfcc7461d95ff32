"""Celery's door to the e-mails."""

from celery import shared_task

from workers import task_names
from workers.orders import shipping

TURN = 2.0  # seconds after which e-mails are left to the next task, so that a worker that is to stop can


@shared_task(name=task_names.SEND_EMAILS)
def send_emails() -> None:
    """Send the e-mails that are due; safe to run twice, together, or late, and may be killed anywhere."""
    if shipping.send_due(at_most_s=TURN).is_out_of_time:
        shipping.poke()
