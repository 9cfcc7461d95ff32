"""Site is one rate and its clock, Slot one start reserved at a site, DeletedSite what is kept of a deleted site."""

from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import ClassVar

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import BrinIndex
from django.db import models
from django.db.models import F, Func, Q, Value
from django.db.models.functions import Coalesce, Collate, Greatest, Least, Now, Reverse

from weir.conf.texts.rates import rate_text
from weir.conf.texts.share_weights import LONGEST_SHARE
from weir.postgres.generated import GeneratedField
from weir.ratelimit import gcra

PAUSED_FOREVER = datetime(9999, 1, 1, tzinfo=UTC)
LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)  # the clock of a site at which nothing has been reserved yet
SHORTEST_GRACE = timedelta(milliseconds=15)  # the hand-over margin (weir.ratelimit.pacing) would use up a shorter one
LONGEST_GRACE = timedelta(days=1)
FARTHEST_S = 100 * 366 * 86_400.0  # the longest wait or pause: PostgreSQL's timestamps have an end
LONGEST_WRITTEN_RATE = 50  # characters; COUNT/PERIOD is at most 9 digits, a slash, 15 digits and a unit
ALWAYS_REFUSING = (429, 503)  # statuses by which every site refuses more requests
REFUSING_FROM, REFUSING_TO = 400, 999  # the statuses that a site's setting may name
MOST_REFUSING = 20  # statuses in a site's setting
LONGEST_REASON = 200  # characters of Site.backoff_reason
MOST_SLOTS = 10_000  # in one reservation, and in one burst
# A site's setting adds statuses to ALWAYS_REFUSING. Django has no lookup for all elements of an array: hence the ALL.
REFUSING_IS_USABLE = Q(refusing__isnull=True) | Q(
    Q(refusing__contains=list(ALWAYS_REFUSING), refusing__len__lte=MOST_REFUSING),
    Func(F("refusing"), template=f"({REFUSING_FROM} <= ALL (%(expressions)s))", output_field=models.BooleanField()),
    Func(F("refusing"), template=f"({REFUSING_TO} >= ALL (%(expressions)s))", output_field=models.BooleanField()),
)


class Site(models.Model):
    """All requests that share one rate: the requests to one host, or to a host and its subdomains.

    The row is the only clock of that rate. The table has fillfactor 50, and no index on columns that a reservation
    changes, so that its updates stay HOT.
    """

    name = models.CharField(max_length=300, unique=True, help_text="host, with :port where not the default")
    interval = models.DurationField(help_text="shortest time between two starts")
    written_rate = models.CharField(
        max_length=LONGEST_WRITTEN_RATE,
        blank=True,
        default="",
        db_default="",
        help_text="the rate as it was written; it is shown so where it stands for the interval",
    )
    burst = models.PositiveIntegerField(default=1, help_text="starts that may follow each other at once (GCRA)")
    max_concurrency = models.PositiveIntegerField(null=True, blank=True, help_text="fetches in flight at once")
    grace = models.DurationField(null=True, blank=True, help_text="how late a start may be; empty = default")
    next_start = models.DateTimeField(
        db_default=LONG_AGO,
        help_text="the site's clock: the earliest next start (with a burst: GCRA's theoretical arrival time)",
    )
    crawl_delay = models.DurationField(
        null=True, blank=True, help_text="from robots.txt; raises the interval, never lowers it"
    )
    obeys_robots = models.BooleanField(null=True, blank=True, help_text="empty = WEIR_OBEY_ROBOTS")
    refusing = ArrayField(
        models.PositiveSmallIntegerField(),
        null=True,
        blank=True,
        help_text="statuses by which it refuses more requests; empty = 429 and 503, and with a Retry-After some others",
    )
    headers = models.JSONField(null=True, blank=True, help_text="of the requests, by name; placeholders for secrets")
    query = models.JSONField(null=True, blank=True, help_text="that each URL gets, by name; placeholders for secrets")
    network = models.JSONField(null=True, blank=True, help_text="proxy, ca, certificate; placeholders for secrets")
    weights = models.JSONField(null=True, blank=True, help_text="of its shares, by name; of all others 1")
    turn_share = models.CharField(max_length=LONGEST_SHARE, null=True, db_collation="C")  # noqa: DJ001  NULL: never
    turn_used = models.PositiveSmallIntegerField(db_default=0, help_text="how many fetches it has had in that turn")
    paused_until = models.DateTimeField(null=True, blank=True)
    backed_off_until = models.DateTimeField(null=True, blank=True)
    backoff_level = models.PositiveSmallIntegerField(db_default=0, help_text="back-offs in a row")
    backed_off_slot = models.BigIntegerField(
        db_default=0, help_text="refusals of starts in slots up to this one belong to the last back-off"
    )
    backoff_error = models.CharField(
        max_length=300, blank=True, db_default="", help_text="why it is unreachable; empty where it refused requests"
    )
    backoff_reason = models.CharField(
        max_length=LONGEST_REASON,
        blank=True,
        db_default="",
        help_text="what it answered that nothing starts before backed_off_until; empty where it cannot be reached",
    )
    refused_until = models.DateTimeField(
        null=True,
        blank=True,
        help_text="where backed_off_until is due to a quota that is used up: the end of what it refused",
    )
    is_silent = models.BooleanField(
        db_default=False, help_text="it has refused a fetch, or could not be reached, and has answered none since"
    )
    # The fence: all slots up to this one are void. Their holders ask for recalls many times a second.
    recalled_slot = models.BigIntegerField(db_default=0)
    recalled_at = models.DateTimeField(null=True)
    starts_out_of_time = models.BigIntegerField(db_default=0, help_text="starts that were written out of their time")
    out_of_time_at = models.DateTimeField(null=True, help_text="when the last of these was written, at the latest")
    has_backlog = models.BooleanField(default=False, help_text="dispatch looks at this site")
    due_at = models.DateTimeField(
        null=True, help_text="while has_backlog is false: when the first queued fetch becomes due"
    )
    covers_subdomains = models.BooleanField(default=False)
    split_until = models.DateTimeField(
        null=True, help_text="hosts that it covered have other sites now: they were promised no start here after this"
    )
    has_strays = models.BooleanField(
        db_default=False, help_text="fetches of such hosts may be queued here: sweep has them follow"
    )

    created_at = models.DateTimeField(db_default=Now())
    is_kept = models.BooleanField(db_default=False, help_text="a person has set or paused it: purge leaves it")

    # What `reserve` and `dispatch` compute with (gcra.py), defined once. PostgreSQL's greatest() ignores NULL.
    effective_interval = GeneratedField(
        expression=Greatest(F("interval"), F("crawl_delay")), output_field=models.DurationField(), db_persist=True
    )
    effective_grace = GeneratedField(
        expression=Coalesce(
            F("grace"),
            Least(
                Greatest(
                    models.ExpressionWrapper(
                        Greatest(F("interval"), F("crawl_delay")) * Value(gcra.GRACE),
                        output_field=models.DurationField(),
                    ),
                    Value(timedelta(seconds=gcra.SHORTEST_GRACE_S)),
                ),
                Value(timedelta(seconds=gcra.LONGEST_GRACE_S)),
            ),
        ),
        output_field=models.DurationField(),
        db_persist=True,
    )
    spacing = GeneratedField(
        expression=models.ExpressionWrapper(
            Greatest(F("interval"), F("crawl_delay")) * Value(gcra.SPACING), output_field=models.DurationField()
        ),
        output_field=models.DurationField(),
        db_persist=True,
    )

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(condition=Q(interval__gt=timedelta(0)), name="weir_site_interval_positive"),
            models.CheckConstraint(condition=Q(burst__gte=1), name="weir_site_burst_positive"),
            models.CheckConstraint(
                condition=Q(grace__isnull=True) | Q(grace__gte=SHORTEST_GRACE), name="weir_site_grace_not_too_short"
            ),
            models.CheckConstraint(
                condition=Q(max_concurrency__isnull=True) | Q(max_concurrency__gte=1),
                name="weir_site_concurrency_positive",
            ),
            models.CheckConstraint(condition=REFUSING_IS_USABLE, name="weir_site_refusing_usable"),
            models.CheckConstraint(
                condition=Q(has_backlog=False) | Q(due_at__isnull=True), name="weir_site_with_backlog_has_no_due_at"
            ),
        ]
        indexes: ClassVar = [
            # Dispatch: the sites with a backlog. Changes only when a site's backlog begins or ends.
            models.Index(fields=["id"], condition=Q(has_backlog=True), name="weir_site_with_backlog"),
            # Dispatch: the sites at which something becomes due. Changes only with has_backlog.
            models.Index(fields=["due_at"], condition=Q(due_at__isnull=False), name="weir_site_due"),
            # known_sites: the sites above a host that cover it.
            models.Index(fields=["name"], condition=Q(covers_subdomains=True), name="weir_site_covering"),
            # Strays: the sites with queued fetches that may belong to other sites. Changes only with a split.
            models.Index(fields=["id"], condition=Q(has_strays=True), name="weir_site_with_strays"),
            # recalls: the sites whose slots were recalled in the last seconds. Changes only with a recall.
            models.Index(fields=["recalled_at"], condition=Q(recalled_at__isnull=False), name="weir_site_recalled"),
            # Site list: the sites whose names end in a text. No reservation changes this index or the next two.
            models.Index(Collate(Reverse("name"), "C"), name="weir_site_by_suffix"),
            # Site list: the sites that were ever paused or backed off, by name.
            models.Index(
                fields=["name"],
                opclasses=["varchar_pattern_ops"],
                condition=Q(paused_until__isnull=False) | Q(backed_off_until__isnull=False),
                name="weir_site_held",
            ),
            # Site list: the sites that refuse, those with most back-offs in a row first.
            models.Index(
                F("backoff_level").desc(),
                Collate("name", "C"),
                condition=Q(backoff_level__gt=0),
                name="weir_site_refusals",
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def rate(self) -> str:
        """Return the rate that was set, as it was written."""
        return rate_text(self.interval, self.written_rate)


class HeldState(StrEnum):
    """The state of a site at which nothing starts for now."""

    PAUSED = "paused"
    UNREACHABLE = "unreachable"  # it was backed off because no answer came
    BACKED_OFF = "backed off"  # because it refused
    RESTING = "resting"  # it is left alone for a time: because it asked for that, or to keep within its quota


BACKED_OFF_STATES = (HeldState.UNREACHABLE, HeldState.BACKED_OFF, HeldState.RESTING)
TRIED_STATES = (HeldState.UNREACHABLE, HeldState.BACKED_OFF)  # tried again, to see whether the site answers


def held_state(*, beneath_pause: bool = False) -> Func:
    """Return the expression of the HeldState of a site, NULL for other sites.

    With `beneath_pause`, the state that the site has, or would have without its pause.
    """
    paused = Value(None) if beneath_pause else F("paused_until")
    names = ("backed_off_until", "refused_until", "backoff_error", "is_silent")
    is_wanted = models.ExpressionWrapper(
        Q(has_backlog=True) | Q(due_at__isnull=False), output_field=models.BooleanField()
    )
    state = "weir_ratelimit_held_state"
    return Func(paused, *map(F, names), is_wanted, Now(), function=state, output_field=models.CharField(null=True))


class StartTotal(models.Model):
    """Totals of starts at all sites, including sites that were deleted since: one row, whose numbers only grow."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    out_of_time = models.BigIntegerField(db_default=0, help_text="starts that were written out of their time")

    def __str__(self) -> str:
        return f"{self.out_of_time} starts out of their time"


class DeletedSite(models.Model):
    """A site that was deleted less than a week ago.

    A transaction that looked the site up before the deletion may commit a fetch with its id afterwards, because no
    constraint refers to sites. Sweep finds such fetches by the old id, and moves them to the sites that their hosts
    have now. A site that is created within the week for such a host, or comes to cover it, keeps its interval after
    the last start that the host may have been given at the deleted site.
    """

    site_id = models.BigIntegerField(primary_key=True, help_text="the id that it had; no other site ever gets it")
    name = models.CharField(max_length=300)
    last_start = models.DateTimeField(help_text="no request to its hosts was started later than this")
    deleted_at = models.DateTimeField(db_default=Now())

    class Meta:
        indexes: ClassVar = [
            # Create, set_rate: the deleted sites to which a host belonged.
            models.Index(fields=["name"], name="weir_deletedsite_by_name"),
        ]

    def __str__(self) -> str:
        return self.name


class Slot(models.Model):
    """One reserved start. Slots whose start has passed may be purged: the clock is in the site's row."""

    # A constraint or an index would cost too much at 1,500 new slots a second. A deleted site's slots stay as history.
    site = models.ForeignKey(Site, models.DO_NOTHING, db_constraint=False, db_index=False)
    start_time = models.DateTimeField()
    use_until = models.DateTimeField(help_text="the end of its run: no start later than this")
    interval = models.DurationField(null=True, help_text="the site's effective interval when the slot was reserved")
    run_size = models.PositiveIntegerField(default=1, help_text="slots reserved together, for one holder")
    at_once = models.PositiveIntegerField(null=True, help_text="fetches of its run in flight at once; empty = any")
    reserved_at = models.DateTimeField(db_default=Now())
    claimed_at = models.DateTimeField(null=True, help_text="in the first slot of a run: when a fetcher claimed the run")
    finished_at = models.DateTimeField(null=True, help_text="when it was noted as used")
    released_at = models.DateTimeField(null=True, help_text="when it was given back unused")
    passed_on_at = models.DateTimeField(null=True, help_text="when another fetch got it, as its own was cancelled")

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(finished_at__isnull=True) | Q(released_at__isnull=True),
                name="weir_slot_finished_or_released",
            ),
        ]
        indexes: ClassVar = [
            # Reserve: the slots of a site that were reserved alone and given back (weir_ratelimit_may_be_taken).
            models.Index(
                fields=["site", "start_time"],
                condition=Q(released_at__isnull=False, run_size=1),
                name="weir_slot_given_back",
            ),
            # recalls: the slots that were passed on in the last seconds.
            models.Index(fields=["passed_on_at"], condition=Q(passed_on_at__isnull=False), name="weir_slot_passed_on"),
            # Slots lie in about the order of their start, so that a small block range index finds a period.
            BrinIndex(fields=["start_time"], name="weir_slot_by_start", autosummarize=True),
        ]

    def __str__(self) -> str:
        return f"slot {self.pk} of site {self.site_id} at {self.start_time:%H:%M:%S.%f}"
