"""Heartbeat, when a worker of a queue last ran its scheduled task; BeatLease, which of several beats sends tasks."""

from django.db import models
from django.db.models.functions import Now


class Heartbeat(models.Model):
    """One row for each queue. A fresh `beat_at` proves that beat, the broker, a worker and PostgreSQL work together."""

    queue = models.CharField(max_length=50, primary_key=True)
    beat_at = models.DateTimeField(db_default=Now())

    def __str__(self) -> str:
        return f"{self.queue}: {self.beat_at:%Y-%m-%d %H:%M:%S}"


class BeatLease(models.Model):
    """The only row, which says which beat sends tasks. The row is missing while no beat holds the lease."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    holder = models.UUIDField(help_text="random, of the process")
    lease_until = models.DateTimeField(help_text="when another beat may take it; the holder renews it each second")

    def __str__(self) -> str:
        return f"beat {self.holder}"
