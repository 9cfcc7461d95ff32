"""The task of the project, which is run again if its worker is killed."""

import time

from celery import shared_task
from django.core.mail import send_mail
from django.db import transaction

STILL_AT_WORK_S = 0.05  # what a task may do after it has sent its message


@shared_task(acks_late=True)
def send_receipt(number: str) -> None:
    """Send a receipt to a member and to the treasurer, and be busy for a while before the message is acknowledged."""
    with transaction.atomic():
        send_mail(
            f"Receipt {number}",
            f"Thank you for payment {number}.",
            None,
            [f"receipt.{number}@members.example", f"treasurer.{number}@club.example"],
            html_message=f"<p>Thank you for payment {number}.</p>",
        )
    time.sleep(STILL_AT_WORK_S)
