"""Heartbeat, the time at which a queue last ran its scheduled task."""

from django.db import models
from django.db.models.functions import Now


class Heartbeat(models.Model):
    """One row a queue. A fresh `beat_at` proves beat, broker, a worker of that queue and PostgreSQL, end to end."""

    queue = models.CharField(max_length=50, primary_key=True)
    beat_at = models.DateTimeField(db_default=Now())

    def __str__(self) -> str:
        return f"{self.queue}: {self.beat_at:%Y-%m-%d %H:%M:%S}"
