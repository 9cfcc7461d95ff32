"""The Celery task of webhooks."""

from celery import shared_task

from weir.workers import task_names
from weir.workers.pools import serial
from weir.workers.webhooks import delivering


@shared_task(name=task_names.DELIVER_WEBHOOKS, **task_names.OPTIONS)
@serial.run_in(serial.WEBHOOKS)
def deliver_webhooks() -> None:
    """Ask for the webhooks of all events that are not asked for yet; safe to run twice or together."""
    delivering.deliver()
