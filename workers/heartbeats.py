"""Heartbeats: a scheduled task of each queue writes the time, which proves that beat, broker and workers work."""

from datetime import timedelta

from django.db.models.functions import Now

from workers.models import Heartbeat

QUEUES = ("default", "ticks", "fetch", "mail")
FRESH = timedelta(minutes=3)


def beat(queue: str) -> None:
    """Note that a worker of this queue has just run a scheduled task."""
    Heartbeat.objects.update_or_create(queue=queue, defaults={"beat_at": Now()})


def silent_queues() -> list[str]:
    """Return the queues whose last heartbeat is older than three minutes, or missing."""
    fresh = set(Heartbeat.objects.filter(beat_at__gt=Now() - FRESH).values_list("queue", flat=True))
    return [queue for queue in QUEUES if queue not in fresh]
