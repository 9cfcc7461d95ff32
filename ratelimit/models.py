"""Site, the clock of one site, and Slot, one start reserved in it."""

from datetime import UTC, datetime, timedelta
from typing import ClassVar

from django.contrib.postgres.indexes import BrinIndex
from django.db import models
from django.db.models import F, Q, Value
from django.db.models.functions import Coalesce, Greatest, Least, Now

PAUSED_FOREVER = datetime(9999, 1, 1, tzinfo=UTC)
LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)  # where a site is booked until in which nothing was ever started
SHORTEST_GRACE = timedelta(milliseconds=15)  # less would be used up by the hand-over margin (ratelimit.pacing)
LONGEST_GRACE = timedelta(days=1)
FARTHEST_S = 100 * 366 * 86_400.0  # PostgreSQL has no point in time for everything
MOST_SLOTS = 10_000  # in one reservation, and in one burst


class Site(models.Model):
    """One site: everything that shares one rate. Its row is the only clock of that rate, whatever the host.

    The table has fillfactor 50 and no index on what a reservation changes, so that its updates stay HOT.
    """

    name = models.CharField(max_length=300, unique=True, help_text="host, with :port where not the default")
    interval = models.DurationField(help_text="shortest time between two starts")
    burst = models.PositiveIntegerField(default=1, help_text="starts that may follow each other at once (GCRA)")
    max_concurrency = models.PositiveIntegerField(null=True, blank=True, help_text="fetches under way at once")
    grace = models.DurationField(null=True, blank=True, help_text="how late a start may be; empty = default")
    next_start = models.DateTimeField(
        db_default=LONG_AGO,
        help_text="where the site is booked until: the earliest next start (with burst: GCRA's theoretical arrival)",
    )
    crawl_delay = models.DurationField(
        null=True, blank=True, help_text="what robots.txt asks for; raises the interval, never lowers it"
    )
    obeys_robots = models.BooleanField(null=True, blank=True, help_text="empty = WEIR_OBEY_ROBOTS")
    paused_until = models.DateTimeField(null=True, blank=True)
    backed_off_until = models.DateTimeField(null=True, blank=True)
    backoff_level = models.PositiveSmallIntegerField(db_default=0, help_text="back-offs in a row; forgiven after quiet")
    backed_off_slot = models.BigIntegerField(db_default=0, help_text="refusals of slots up to this one count no more")
    # The fence: slots up to this one are void, whoever holds them. Holders ask for new recalls all the time.
    recalled_slot = models.BigIntegerField(db_default=0)
    recalled_at = models.DateTimeField(null=True)
    has_backlog = models.BooleanField(default=False, help_text="dispatch looks at this site")
    covers_subdomains = models.BooleanField(default=False)

    # What `reserve` and `dispatch` reckon with, stated once. PostgreSQL's greatest() ignores NULL. The grace of 2.5 %
    # (25-250 ms) is what a hand-over between two holders costs; the spacing of 1 % lets a holder that fell behind by a
    # timer's error catch up.
    effective_interval = models.GeneratedField(
        expression=Greatest(F("interval"), F("crawl_delay")), output_field=models.DurationField(), db_persist=True
    )
    effective_grace = models.GeneratedField(
        expression=Coalesce(
            F("grace"),
            Least(
                Greatest(
                    models.ExpressionWrapper(
                        Greatest(F("interval"), F("crawl_delay")) * Value(0.025), output_field=models.DurationField()
                    ),
                    Value(timedelta(milliseconds=25)),
                ),
                Value(timedelta(milliseconds=250)),
            ),
        ),
        output_field=models.DurationField(),
        db_persist=True,
    )
    spacing = models.GeneratedField(
        expression=models.ExpressionWrapper(
            Greatest(F("interval"), F("crawl_delay")) * Value(1.01), output_field=models.DurationField()
        ),
        output_field=models.DurationField(),
        db_persist=True,
    )

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(condition=Q(interval__gt=timedelta(0)), name="site_interval_positive"),
            models.CheckConstraint(condition=Q(burst__gte=1), name="site_burst_positive"),
            models.CheckConstraint(
                condition=Q(grace__isnull=True) | Q(grace__gte=SHORTEST_GRACE), name="site_grace_not_too_short"
            ),
            models.CheckConstraint(
                condition=Q(max_concurrency__isnull=True) | Q(max_concurrency__gte=1),
                name="site_concurrency_positive",
            ),
        ]
        indexes: ClassVar = [
            # Dispatch: the sites that have queued work. Changes only when a site falls idle or wakes up.
            models.Index(fields=["id"], condition=Q(has_backlog=True), name="site_with_backlog"),
            # Enqueue: is there an ancestor that covers this host?
            models.Index(fields=["name"], condition=Q(covers_subdomains=True), name="site_covering"),
            # Holders of slots: what was recalled lately? Changes only when a site is recalled.
            models.Index(fields=["recalled_at"], condition=Q(recalled_at__isnull=False), name="site_recalled"),
        ]

    def __str__(self) -> str:
        return self.name


class Slot(models.Model):
    """One reserved start. Past slots are history only: the clock is in Site, so purging forgets nothing."""

    # No constraint and no index: sites are never deleted while in use, and 1,500 slots a second pay for neither.
    site = models.ForeignKey(Site, models.DO_NOTHING, db_constraint=False, db_index=False)
    start_time = models.DateTimeField()
    use_until = models.DateTimeField(help_text="after this the holder may not start: it reserves again")
    interval = models.DurationField(null=True, help_text="the site's when it was reserved")
    run_size = models.PositiveIntegerField(default=1, help_text="slots reserved together, for one holder")
    at_once = models.PositiveIntegerField(null=True, help_text="fetches that its run may have under way; empty = any")
    reserved_at = models.DateTimeField(db_default=Now())
    claimed_at = models.DateTimeField(null=True, help_text="in the first slot of a run: its holder took it")
    finished_at = models.DateTimeField(null=True)
    released_at = models.DateTimeField(null=True, help_text="given back unused")
    passed_on_at = models.DateTimeField(null=True, help_text="to another fetch, as its own was cancelled")

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(finished_at__isnull=True) | Q(released_at__isnull=True),
                name="slot_finished_or_released",
            ),
        ]
        indexes: ClassVar = [
            # Reserve: the earliest given-back slot of a site. A slot of a run belongs to the run's holder alone.
            models.Index(
                fields=["site", "start_time"],
                condition=Q(released_at__isnull=False, run_size=1),
                name="slot_given_back",
            ),
            # Holders of slots: which were passed on lately?
            models.Index(fields=["passed_on_at"], condition=Q(passed_on_at__isnull=False), name="slot_passed_on"),
            # Purge: slots come in about the order of their start, so a block range index finds the old ones.
            BrinIndex(fields=["start_time"], name="slot_by_start", autosummarize=True),
        ]

    def __str__(self) -> str:
        return f"slot {self.pk} of site {self.site_id} at {self.start_time:%H:%M:%S.%f}"
