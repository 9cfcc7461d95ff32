"""Recovery, a record of what Weir did after PostgreSQL had forgotten commits."""

from typing import ClassVar

from django.db import models
from django.db.models.functions import Now


class Recovery(models.Model):
    """PostgreSQL had forgotten what was committed after `since`, and Weir recovered from that."""

    ended_at = models.DateTimeField(db_default=Now())
    since = models.DateTimeField(help_text="the last moment of which PostgreSQL is known to have known everything")
    why = models.TextField(help_text="how it was found out, or what the operator says")
    who = models.TextField(help_text="the process that found it out, or the operator")
    sites = models.PositiveIntegerField(help_text="that rest")
    emails = models.PositiveIntegerField(help_text="that became unknown")
    is_loss = models.BooleanField(default=True, help_text="no: an operator has said that nothing was lost")

    class Meta:
        verbose_name_plural = "recoveries"
        # The overview finds the last recovery.
        indexes: ClassVar = [models.Index(fields=["ended_at"], name="weir_recovery_ended_at")]

    def __str__(self) -> str:
        return f"recovery of {self.ended_at}"
