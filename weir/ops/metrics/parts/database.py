"""PostgreSQL's sessions, and the time since it last lost commits."""

from collections.abc import Iterator
from typing import NamedTuple

from django.db.models.functions import Now
from prometheus_client.metrics_core import Metric

from weir.ops.metrics.families import gauge
from weir.postgres.statements import Statement
from weir.postgres.timeline.models import KnownTimeline
from weir.workers.recovery.models import Recovery


class Sessions(NamedTuple):
    """The age of the oldest snapshot, how many sessions there are, and how many there may be."""

    oldest_snapshot_s: float
    sessions: int
    most_sessions: int


DATABASE_SESSIONS = Statement("database_sessions", row=Sessions, commits=False)


def families() -> Iterator[Metric]:
    """Yield the metrics of what slows PostgreSQL down or keeps other clients out, and of the last recovery."""
    [seen] = DATABASE_SESSIONS()
    meaning = "Age of the oldest snapshot of another session: dead rows pile up behind it."
    yield gauge("weir_database_oldest_snapshot_seconds", meaning, seen.oldest_snapshot_s)
    yield gauge("weir_database_connections", "Sessions of all clients of the server.", seen.sessions)
    yield gauge("weir_database_connections_max", "How many sessions Weir's role may bring it to.", seen.most_sessions)
    if (age_s := _recovery_age_s()) is not None:
        meaning = "Since the last recovery from a loss of PostgreSQL's; 0: the gate is closed."
        yield gauge("weir_recovery_age_seconds", meaning, age_s)


def _recovery_age_s() -> float | None:
    if KnownTimeline.objects.exclude(closed_because="").exists():
        return 0.0
    last = Recovery.objects.filter(is_loss=True).order_by("-ended_at").values_list("ended_at", Now()).first()
    return max(1.0, (last[1] - last[0]).total_seconds()) if last else None
