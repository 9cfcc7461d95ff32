"""Process, a row for each of Weir's running processes."""

from django.db import models
from django.db.models.functions import Now


class Process(models.Model):
    """A process that works, or the beat in a worker. The loop that does the work writes a heartbeat every 2 seconds.

    A row is deleted when its process ends in order, or an hour after its last heartbeat. Ids are never used again.
    """

    kind = models.CharField(
        max_length=100,
        help_text="fetcher, worker, ticks, maintenance, mailer or beat; several of a worker are joined by +",
    )
    name = models.CharField(max_length=300, help_text="as Celery names its workers: fetcher.1@host")
    host = models.CharField(max_length=255)
    pid = models.IntegerField(help_text="its id on its host, or in its container")
    version = models.CharField(max_length=50, help_text="of Weir")
    started_at = models.DateTimeField(db_default=Now())
    turned_at = models.DateTimeField(db_default=Now(), help_text="the last turn of its own loop")
    steady_since = models.DateTimeField(
        db_default=Now(), help_text="since then each turn came in time: PostgreSQL was there for whoever turned"
    )
    stopping_at = models.DateTimeField(null=True, help_text="when it was asked to end; it still ends what it holds")
    holds = models.IntegerField(
        default=0, help_text="fetches that it claimed, tasks that it runs, or 1 for the beat that has the lease"
    )
    round_trip_s = models.FloatField(
        db_default=0.0, help_text="what nearly all of its round trips to PostgreSQL took at most"
    )

    class Meta:
        verbose_name_plural = "processes"

    def __str__(self) -> str:
        return f"{self.name} (pid {self.pid})"
