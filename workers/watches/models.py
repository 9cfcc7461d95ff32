"""Watch: one URL that is fetched again and again."""

from typing import ClassVar, Self

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from weir.conf.texts.share_weights import LONGEST_SHARE
from weir.workers import task_names
from weir.workers.fetches.models import Fetch

LONGEST_HOST = 300  # characters, as of a site's name


class WatchQuerySet(models.QuerySet["Watch"]):
    """Filters by state."""

    def due(self) -> Self:
        """Return the watches whose pages are to be asked for now."""
        return self.filter(next_at__lte=Now())

    def paused(self) -> Self:
        """Return the watches that an operator has paused."""
        return self.filter(next_at=None)

    def failing(self) -> Self:
        """Return the watches whose last fetch brought no page."""
        return self.filter(failing_since__isnull=False)

    def of_fetch(self, fetch_id: int) -> Self:
        """Return the watch that this fetch is of, if it was asked for by a watch that still exists."""
        return self.filter(dedupe_key__in=Fetch.objects.filter(pk=fetch_id).values("dedupe_key"))


class Watch(models.Model):
    """One URL that is fetched again and again. At any time at most one of its fetches is unfinished."""

    key = models.TextField(help_text="its name: the URL as it is sent, unless the caller gave another one")
    # A key may be longer than an index entry. It is the dedupe key of the watch's fetches, too.
    dedupe_key = models.UUIDField(unique=True, help_text="a hash of the key")
    url = models.TextField(help_text="as given")
    host = models.CharField(max_length=LONGEST_HOST, help_text="of the URL as it is sent")
    request_headers = models.JSONField(null=True, help_text="by name; placeholders for secrets")
    priority = models.SmallIntegerField(default=0)
    revalidate = models.BooleanField(default=True)
    every = models.DurationField(help_text="the period that was asked for")
    jitter = models.FloatField(help_text="by which share each period is longer or shorter, at most")
    shortest = models.DurationField(null=True, help_text="the bounds of a period that adapts; null: it does not")
    longest = models.DurationField(null=True)
    period = models.DurationField(help_text="the period now, without jitter")
    tell_first = models.BooleanField(default=False, help_text="whether on_change is called for the first body, too")
    on_change = models.CharField(
        max_length=task_names.LONGEST,
        blank=True,
        default="",
        help_text="the Celery task that is called with the id of each fetch whose body differs from the one before",
    )
    share = models.CharField(
        max_length=LONGEST_SHARE, blank=True, default="", db_default="", help_text="whose its fetches are"
    )
    next_at = models.DateTimeField(null=True, help_text="when it is asked for next; null: an operator has paused it")
    created_at = models.DateTimeField(db_default=Now())
    asked_at = models.DateTimeField(null=True, help_text="when a fetch was queued last")
    fetch_id = models.BigIntegerField(null=True, help_text="the last fetch that was queued; its row may be gone")
    judged_at = models.DateTimeField(null=True, help_text="when a fetch was judged last")
    body_hash = models.BinaryField(null=True, help_text="SHA-256 of the last good body, decompressed")
    body_id = models.BigIntegerField(null=True, help_text="the fetch whose body that is; its row may be gone")
    changed_at = models.DateTimeField(null=True, help_text="when a body that differed came last")
    changes = models.IntegerField(default=0, db_default=0, help_text="how many bodies differed from the one before")
    error = models.TextField(blank=True, default="", db_default="", help_text="why the last fetch brought no page")
    failing_since = models.DateTimeField(null=True)

    objects: ClassVar = WatchQuerySet.as_manager()

    class Meta:
        verbose_name_plural = "watches"
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(shortest__isnull=True) ^ Q(longest__isnull=False), name="weir_watch_bounds_together"
            ),
            models.CheckConstraint(
                condition=Q(failing_since__isnull=True) ^ ~Q(error=""), name="weir_watch_failing_says_why"
            ),
        ]
        indexes: ClassVar = [
            # The tick: the watches that are due, the longest due first.
            models.Index(fields=["next_at"], condition=Q(next_at__isnull=False), name="weir_watch_due"),
            # Lists: those of a host, and the few that fail or are paused.
            models.Index(fields=["host", "id"], name="weir_watch_of_host"),
            models.Index(fields=["id"], condition=Q(failing_since__isnull=False), name="weir_watch_failing"),
            models.Index(fields=["id"], condition=Q(next_at__isnull=True), name="weir_watch_paused"),
        ]

    def __str__(self) -> str:
        return f"watch {self.pk} {self.key[:100]}"
