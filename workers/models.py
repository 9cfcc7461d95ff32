"""Heartbeat, the time at which a queue last ran its scheduled task; BeatLease, which of several beats ticks."""

from django.db import models
from django.db.models.functions import Now


class Heartbeat(models.Model):
    """One row a queue. A fresh `beat_at` proves beat, broker, a worker of that queue and PostgreSQL, end to end."""

    queue = models.CharField(max_length=50, primary_key=True)
    beat_at = models.DateTimeField(db_default=Now())

    def __str__(self) -> str:
        return f"{self.queue}: {self.beat_at:%Y-%m-%d %H:%M:%S}"


class BeatLease(models.Model):
    """The one row that says which beat ticks. There is none while no beat does."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    holder = models.UUIDField(help_text="random, of the process")
    lease_until = models.DateTimeField(help_text="when another beat may take it; the holder renews it each second")

    def __str__(self) -> str:
        return f"beat {self.holder}"
