"""The Celery tasks but for those of `workers.mail`. Tasks are doors; the rooms are the modules they name."""

import signal
from typing import Any

from celery import shared_task
from celery.app.task import Context
from celery.signals import task_revoked, task_unknown, worker_process_init, worker_shutdown, worker_shutting_down
from kombu import Message

from notifications import flush, heal, outages
from notifications import retention as notification_retention
from workers import heartbeats
from workers.fetches import dispatch as dispatching
from workers.fetches import fetcher, retention
from workers.fetches import sweep as sweeping
from workers.throttled import postponing, publishing

DRAIN = 3.0  # seconds that answers under way get when a fetcher stops


@shared_task
def dispatch(site_ids: list[int] | None = None) -> None:
    """Book the lanes that are due, or these alone, and send their fetches out; safe to run twice, together, or late."""
    dispatching.dispatch(site_ids)


@shared_task
def fetch_batch(slot_ids: list[int]) -> None:
    """Fetch what dispatch booked, in its slots; a message that comes twice or late does nothing."""
    fetcher.fetcher().run_batch(slot_ids)


@shared_task
def sweep() -> None:
    """Take back what messages and workers lost; safe to run twice or together."""
    sweeping.sweep()


@shared_task
def purge_fetches() -> None:
    """Delete old results and slots; may be killed anywhere."""
    retention.purge()


@shared_task
def flush_unread() -> None:
    """Move sealed deltas from Redis to PostgreSQL; safe to run twice, together, or never again."""
    with outages.waited_out("unread_not_flushed"):
        flush.flush_sealed()


@shared_task
def heal_unread() -> None:
    """Find unread numbers that are wrong, and mend them; one at a time, whoever starts it."""
    with outages.waited_out("unread_not_healed"):
        heal.heal()


@shared_task
def purge_notifications() -> None:
    """Delete what was read long ago; may be killed anywhere."""
    notification_retention.purge()


@shared_task
def publish_postponed() -> None:
    """Publish throttled tasks that wait in PostgreSQL and can start soon; safe to run twice, together, or late."""
    publishing.publish_due()


@shared_task
def heartbeat(queue: str) -> None:
    """Note that this queue's workers, the broker, beat and PostgreSQL all work."""
    heartbeats.beat(queue)


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


@worker_process_init.connect
def _finish_the_task(**_kwargs: Any) -> None:
    """Leave SIGTERM to the parent: a supervisor sends it to the whole group, and it would cut a running task off."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


@worker_shutting_down.connect
def _stop_starting(**_kwargs: Any) -> None:
    if running := fetcher.running_fetcher():
        running.stop_starting()


@worker_shutdown.connect
def _finish(**_kwargs: Any) -> None:
    if running := fetcher.running_fetcher():
        running.close(DRAIN)
