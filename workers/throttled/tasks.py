"""The Celery task that publishes postponed tasks, and what a worker that discards a message does with its row."""

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
    """Delete the row of a throttled task that was revoked or has expired, so that the task is not published again."""
    if row := postponing.named_row(request.headers, request.retries):
        postponing.forget(row)


@task_unknown.connect
def _lose_postponed(message: Message, **_kwargs: Any) -> None:
    """Let a throttled task be published again that this worker does not know: another worker may know it."""
    if row := postponing.named_row(message.headers, message.headers.get("retries")):
        postponing.lose(row)
