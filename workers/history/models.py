"""Total, a number that only grows; Minute and SiteMinute, what happened in a minute; Watermark, how far they go."""

from typing import ClassVar

from django.contrib.postgres.indexes import BrinIndex
from django.db import models
from django.db.models import Q


class Total(models.Model):
    """How often something has happened since the history began. Only the rollup changes the value, which only grows."""

    series = models.CharField(max_length=40, help_text="what is counted, such as fetches_ended")
    label = models.CharField(max_length=40, blank=True, help_text="which of it, such as done; empty where there is one")
    value = models.BigIntegerField(help_text="how many, or how much, of all minutes that were rolled up")

    class Meta:
        constraints: ClassVar = [
            # The rollup finds the total through this index, and adds to it.
            models.UniqueConstraint(fields=["series", "label"], name="weir_total_series_label_unique"),
            models.CheckConstraint(condition=Q(value__gte=0), name="weir_total_not_negative"),
        ]

    def __str__(self) -> str:
        return f"{self.series} {self.label}: {self.value}"


class Counted(models.Model):
    """Numbers of fetches, each in the minute of its end, and of slots, each in the minute of its start."""

    fetches_done = models.IntegerField(default=0)
    fetches_failed = models.IntegerField(default=0)
    fetches_cancelled = models.IntegerField(default=0)
    refused = models.IntegerField(default=0, help_text="of those that failed: their last answer was a refusal")
    slots_used = models.IntegerField(default=0)
    slots_given_back = models.IntegerField(default=0)
    slots_missed = models.IntegerField(default=0)
    slots_void = models.IntegerField(default=0)
    slots_unreported = models.IntegerField(default=0)
    slots_allowed = models.BigIntegerField(
        default=0, help_text="starts that the rates of the sites which had a slot allow in a minute"
    )
    lateness_p50_ms = models.FloatField(
        null=True, help_text="from the slot's start to the request, of fetches that ended; empty where none was sent"
    )
    lateness_p99_ms = models.FloatField(null=True, help_text="as above: one fetch in a hundred was later")

    class Meta:
        abstract = True


class Minute(Counted):
    """What happened in one minute. A minute without a row is a gap: nothing is known about it."""

    minute = models.DateTimeField(primary_key=True, help_text="when it began")
    emails_sent = models.IntegerField(default=0)
    emails_failed = models.IntegerField(default=0)
    emails_unknown = models.IntegerField(default=0)
    has_all_sites = models.BooleanField(
        db_default=False, help_text="each site with a slot or an ended fetch has its row: others had none"
    )
    unread_flushed = models.IntegerField(default=0, help_text="users whose stored number a flush changed")

    def __str__(self) -> str:
        return f"{self.minute:%Y-%m-%d %H:%M}"


class SiteMinute(Counted):
    """What happened at one of the busiest sites in one minute. Without a row, nothing did if Minute has all sites."""

    minute = models.DateTimeField(help_text="when it began")
    site_id = models.BigIntegerField(help_text="the site; it may have been deleted since")

    class Meta:
        constraints: ClassVar = [
            # Reports find the minutes of a site.
            models.UniqueConstraint(fields=["site_id", "minute"], name="weir_siteminute_unique"),
        ]
        # The purge finds the oldest minutes. Rows are written in the order of their minutes.
        indexes: ClassVar = [BrinIndex(fields=["minute"], name="weir_siteminute_by_minute", autosummarize=True)]

    def __str__(self) -> str:
        return f"{self.minute:%Y-%m-%d %H:%M} at site {self.site_id}"


class Watermark(models.Model):
    """The one row that says how far the history goes. The rollup holds its lock."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    rolled_until = models.DateTimeField(help_text="the minutes before this are rolled up; the next one begins here")
    epoch = models.BigIntegerField(help_text="the last epoch of unread numbers whose users are in the totals")

    class Meta:
        constraints: ClassVar = [models.CheckConstraint(condition=Q(id=1), name="weir_watermark_is_one_row")]

    def __str__(self) -> str:
        return f"rolled up until {self.rolled_until:%Y-%m-%d %H:%M}"
