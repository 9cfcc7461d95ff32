"""Celery's door to the postponed tasks, and what becomes of their rows where a worker throws a message away."""

from typing import Any

from celery import shared_task
from celery.app.task import Context
from celery.signals import task_revoked, task_unknown
from kombu import Message

from workers import task_names
from workers.throttled import postponing, publishing


@shared_task(name=task_names.PUBLISH_POSTPONED)
def publish_postponed() -> None:
    """Publish throttled tasks that wait in PostgreSQL and can start soon; safe to run twice, together, or late."""
    publishing.publish_due()


@task_revoked.connect
def _forget_postponed(request: Context, **_kwargs: Any) -> None:
    """Publish a throttled task no more that was revoked, or has expired."""
    if row := postponing.named_row(request.headers, request.retries):
        postponing.forget(row)


@task_unknown.connect
def _lose_postponed(message: Message, **_kwargs: Any) -> None:
    """Publish a throttled task again that this worker's code does not have; another worker's, or the next, may."""
    if row := postponing.named_row(message.headers, message.headers.get("retries")):
        postponing.lose(row)
