"""Heartbeats: a scheduled task of each queue writes the time, which proves that beat, broker and workers work."""

from datetime import timedelta

from django.db.models import F, Min
from django.db.models.functions import Now

from weir.workers.models import Heartbeat
from weir.workers.processes.models import Process
from weir.workers.processes.turning import BEAT, KINDS
from weir.workers.schedule import QUEUES

FRESH = timedelta(minutes=3)


def beat(queue: str) -> None:
    """Note that a worker of this queue has just run a scheduled task."""
    Heartbeat.objects.update_or_create(queue=queue, defaults={"beat_at": Now()})


def ages_s() -> dict[str, float]:
    """Return the seconds since the last heartbeat of each queue; those that never had one are left out."""
    now = Heartbeat.objects.annotate(age=Now() - F("beat_at")).values_list("queue", "age")
    return {queue: age.total_seconds() for queue, age in now if queue in QUEUES}


def silent_queues() -> list[str]:
    """Return the queues whose last heartbeat is older than three minutes, or missing.

    But not those whose beat or workers have been known for a shorter time. A killed process is known for an hour, so
    that one which is started again and again is not taken for new.
    """
    fresh = set(Heartbeat.objects.filter(beat_at__gt=Now() - FRESH).values_list("queue", flat=True))
    if not (silent := [queue for queue in QUEUES if queue not in fresh]):
        return []
    known_since = Process.objects.values("kind").annotate(since=Min("started_at"))
    new = set(known_since.filter(since__gt=Now() - FRESH).values_list("kind", flat=True))
    return [queue for queue in silent if not {BEAT, KINDS.get(queue, "worker")} & new]
