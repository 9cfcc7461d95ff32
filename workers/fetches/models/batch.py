"""Batch: fetches that were asked for under one name, and how many of them ended how."""

from typing import ClassVar

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from weir.workers import task_names

LONGEST_BATCH_NAME = 200  # characters


class Batch(models.Model):
    """Fetches under one name. The numbers are those of the last fold: with its BatchChange rows they are exact.

    A fetch whose row is deleted after its end still counts; one that is deleted before its end belongs to it no more.
    """

    name = models.CharField(max_length=LONGEST_BATCH_NAME, unique=True, help_text="the caller's")
    on_done = models.CharField(
        max_length=task_names.LONGEST,
        blank=True,
        default="",
        db_default="",
        help_text="the Celery task that is called with the name when nothing is left",
    )
    is_open = models.BooleanField(default=False, db_default=False, help_text="the caller has said that more is to come")
    unfinished = models.BigIntegerField(default=0, db_default=0, help_text="how many are left")
    done = models.BigIntegerField(default=0, db_default=0, help_text="how many ended so, deleted ones included")
    failed = models.BigIntegerField(default=0, db_default=0, help_text="as above")
    cancelled = models.BigIntegerField(default=0, db_default=0, help_text="as above")
    created_at = models.DateTimeField(db_default=Now(), help_text="when it was first named")
    ended_at = models.DateTimeField(null=True, help_text="when sweep saw that nothing was left")
    on_done_called_at = models.DateTimeField(null=True, help_text="when the broker took the call")
    on_done_again_at = models.DateTimeField(null=True, help_text="when it is called again: a worker knew no such task")

    class Meta:
        verbose_name_plural = "batches"
        indexes: ClassVar = [
            # Sweep: the few batches of which nothing may be left.
            models.Index(
                fields=["id"], condition=Q(ended_at__isnull=True, is_open=False, unfinished=0), name="weir_batch_ending"
            ),
            # Sweep: calls that were not made yet, and those of tasks that a worker did not know.
            models.Index(
                fields=["ended_at"],
                condition=Q(ended_at__isnull=False, on_done_called_at__isnull=True) & ~Q(on_done=""),
                name="weir_batch_call_due",
            ),
            models.Index(
                fields=["on_done_again_at"],
                condition=Q(on_done_again_at__isnull=False),
                name="weir_batch_called_again",
            ),
            # Purge: the oldest that ended. Lists: those that have not.
            models.Index(fields=["ended_at"], condition=Q(ended_at__isnull=False), name="weir_batch_ended"),
            models.Index(fields=["id"], condition=Q(ended_at__isnull=True), name="weir_batch_unfinished"),
        ]

    def __str__(self) -> str:
        return f"batch {self.pk} {self.name}"


class BatchChange(models.Model):
    """By how much one statement has changed a batch's numbers; sweep folds it into the batch.

    Triggers (migrations/0012_fetches_of_batches.py, 0028_counted_by_row.py) write it in the transaction that changes
    the fetches.
    """

    id = models.BigAutoField(primary_key=True, help_text="in no order of commits")
    # No constraint: its check would lock the batch's row in each transaction that stores results.
    batch = models.ForeignKey(
        Batch, models.DO_NOTHING, db_constraint=False, related_name="+", help_text="whose numbers"
    )
    unfinished = models.BigIntegerField(help_text="more than before; negative: fewer")
    done = models.BigIntegerField(help_text="as above")
    failed = models.BigIntegerField(help_text="as above")
    cancelled = models.BigIntegerField(help_text="as above")

    def __str__(self) -> str:
        return f"change {self.pk} of batch {self.batch_id}"
