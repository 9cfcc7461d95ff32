"""The Celery task that publishes postponed tasks, and what happens to a row when a worker discards its message."""

from typing import Any

from celery import shared_task
from celery.app.task import Context
from celery.signals import task_revoked, task_unknown
from kombu import Message

from weir.workers import task_names
from weir.workers.pools import serial
from weir.workers.throttled import postponing, publishing


@shared_task(name=task_names.PUBLISH_POSTPONED, **task_names.OPTIONS)
@serial.run_in(serial.PUBLISH)
def publish_postponed() -> None:
    """Publish throttled tasks that wait in PostgreSQL and can start soon; safe to run twice, concurrently, or late."""
    publishing.publish_due()


@task_revoked.connect
def _forget_postponed(request: Context, **_kwargs: Any) -> None:
    """Delete the row of a throttled task that was revoked or has expired: it is not published again."""
    if row := postponing.named_row(request.headers, request.retries):
        postponing.forget(row)


@task_unknown.connect
def _lose_postponed(message: Message, **_kwargs: Any) -> None:
    """Let a throttled task that is unknown here be published again: another worker, or newer code, may know it."""
    if row := postponing.named_row(message.headers, message.headers.get("retries")):
        postponing.lose(row)
