"""Heartbeats: whether beat, broker and workers really work, told by a task that went the whole way."""

from datetime import timedelta

from django.db.models.functions import Now

from workers.models import Heartbeat

QUEUES = ("default", "fetch", "mail")
FRESH = timedelta(minutes=3)


def beat(queue: str) -> None:
    """Note that a worker of this queue ran a scheduled task just now."""
    Heartbeat.objects.update_or_create(queue=queue, defaults={"beat_at": Now()})


def silent_queues() -> list[str]:
    """Return the queues from which no heartbeat came for three minutes."""
    fresh = set(Heartbeat.objects.filter(beat_at__gt=Now() - FRESH).values_list("queue", flat=True))
    return [queue for queue in QUEUES if queue not in fresh]
