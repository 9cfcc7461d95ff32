"""RobotsFile: what is known of the robots.txt of one origin."""

from datetime import timedelta
from typing import ClassVar

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from weir.ratelimit.models import Site


class RobotsState(models.TextChoices):
    """What is known of the robots.txt of an origin."""

    ALLOWED = "allowed"  # the origin has none (4xx, or a redirect to nowhere): everything may be fetched
    RULES = "rules"
    UNREACHABLE = "unreachable"  # 5xx, 429, no answer, ...: nothing may be fetched for now; `error` says why
    FORBIDDEN = "forbidden"  # our settings forbid connecting to the origin; `error` says why


class RobotsFile(models.Model):
    """What the robots.txt of one origin said when it was last requested. Without a row, it is not known."""

    origin = models.TextField(primary_key=True, help_text="scheme://host, with :port where not the default")
    # As in Fetch: a constraint's check would lock the site's row.
    site = models.ForeignKey(Site, models.PROTECT, db_constraint=False, db_index=False, help_text="the origin's site")
    state = models.CharField(max_length=11, choices=RobotsState)
    rules = models.TextField(blank=True, help_text="the text, at most 512 KiB of it")
    crawl_delay = models.DurationField(null=True, help_text="the Crawl-delay that holds for Weir, at most a day")
    error = models.TextField(blank=True, help_text="why it is unreachable or forbidden")
    fetched_at = models.DateTimeField(db_default=Now())
    refresh_at = models.DateTimeField(help_text="when it is asked for again, while it still counts")
    expires_at = models.DateTimeField(help_text="when it no longer counts")

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(condition=Q(state__in=RobotsState.values), name="weir_robots_state_known"),
            models.CheckConstraint(
                condition=Q(state__in=[RobotsState.UNREACHABLE.value, RobotsState.FORBIDDEN.value]) ^ Q(error=""),
                name="weir_robots_unreachable_says_why",
            ),
            models.CheckConstraint(
                condition=Q(crawl_delay__isnull=True) | Q(crawl_delay__gt=timedelta(0)),
                name="weir_robots_delay_positive",
            ),
            models.CheckConstraint(condition=Q(refresh_at__lte=F("expires_at")), name="weir_robots_refreshed_in_time"),
        ]
        indexes: ClassVar = [
            # Crawl-delays: the longest one that still counts at a site.
            models.Index(fields=["site", "expires_at"], name="weir_robots_of_site"),
            # Purge: the robots.txt files that expired long ago.
            models.Index(fields=["expires_at"], name="weir_robots_expired"),
        ]

    def __str__(self) -> str:
        return f"{self.origin}/robots.txt ({self.state})"
