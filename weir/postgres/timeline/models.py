"""KnownTimeline, the row that shows whether the database has forgotten commits."""

from typing import ClassVar

from django.db import models
from django.db.models import Q


class KnownTimeline(models.Model):
    """The one row that names the known history of the database. `weir_timeline_is_known` reads it before each grant."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    timeline = models.CharField(max_length=8, help_text="of PostgreSQL's write-ahead log: another after each promotion")
    cluster = models.CharField(max_length=40, help_text="system identifier and oid of the database: others in a copy")
    generation = models.BigIntegerField(
        db_column="number", help_text="grows with time; processes and Redis remember it, too"
    )
    numbered_at = models.DateTimeField(help_text="when it last grew")
    is_synchronous = models.BooleanField(help_text="commits waited for a standby then")
    closed_because = models.TextField(
        blank=True, default="", help_text="why nothing is granted until a recovery has ended; empty = it is"
    )
    step_s = models.FloatField(null=True, help_text="by how much PostgreSQL's clock was stepped, until that is settled")
    steps = models.PositiveIntegerField(default=0, db_default=0, help_text="of PostgreSQL's clock, that were settled")
    lease_until = models.DateTimeField(null=True, help_text="until then no other process settles")
    lease_token = models.UUIDField(null=True, help_text="who settles: another each time that the lease is taken")
    went_back_at = models.DateTimeField(null=True, help_text="when it last turned out that PostgreSQL had forgotten")

    class Meta:
        constraints: ClassVar = [models.CheckConstraint(condition=Q(id=1), name="weir_timeline_is_one_row")]

    def __str__(self) -> str:
        return f"timeline {self.timeline}, generation {self.generation}"
