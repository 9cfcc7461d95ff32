"""Heartbeats: a scheduled task in each queue writes the time, which proves that beat, the broker and workers work."""

from datetime import timedelta

from django.db.models import F, Min
from django.db.models.functions import Now
from django.db.models.lookups import GreaterThan

from weir.workers import schedule
from weir.workers.models import Heartbeat
from weir.workers.processes import kinds
from weir.workers.processes.kinds import BEAT
from weir.workers.processes.models import Process

FRESH = timedelta(minutes=3)


def beat(queue: str) -> None:
    """Record that a worker of this queue has just run a scheduled task."""
    Heartbeat.objects.update_or_create(queue=queue, defaults={"beat_at": Now()})


def ages_s() -> dict[str, float]:
    """Return the seconds since the last heartbeat of each queue; queues that never had one are left out."""
    now = Heartbeat.objects.annotate(age=Now() - F("beat_at")).values_list("queue", "age")
    return {queue: age.total_seconds() for queue, age in now if queue in schedule.queues()}


def silent_queues() -> list[str]:
    """Return the queues whose last heartbeat is older than three minutes, or missing.

    Queues are left out if their workers, or all beats, have been known for less than three minutes. A killed process
    stays known for an hour, so that a process that is killed and started again and again is not taken for new.
    """
    fresh = set(Heartbeat.objects.filter(beat_at__gt=Now() - FRESH).values_list("queue", flat=True))
    if not (silent := [queue for queue in schedule.queues() if queue not in fresh]):
        return []
    known_since = Process.objects.values("kind").annotate(is_new=GreaterThan(Min("started_at"), Now() - FRESH))
    is_new: dict[str, bool] = {}
    for known, new in known_since.values_list("kind", "is_new"):
        is_new |= {kind: new and is_new.get(kind, True) for kind in kinds.split(known)}
    return [queue for queue in silent if not any(is_new.get(kind) for kind in (BEAT, kinds.of_queue(queue)))]
