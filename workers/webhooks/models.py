"""Endpoint: a URL to which Weir delivers the ends of fetches and e-mails, as webhooks."""

from typing import ClassVar, Final, Self

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models.functions import Now

LONGEST_NAME: Final = 200  # characters
LONGEST_URL: Final = 2_000  # characters
LONGEST_TYPE: Final = 50  # characters
LONGEST_SECRET: Final = 100  # characters of a secret's name


class EndpointQuerySet(models.QuerySet["Endpoint"]):
    """Filters by state."""

    def active(self) -> Self:
        """Return the endpoints to which events are delivered."""
        return self.filter(paused_at=None)


class Endpoint(models.Model):
    """A URL to which Weir delivers events. Each event after `cursor` is still to be asked for, and none before it."""

    name = models.CharField(max_length=LONGEST_NAME, unique=True)
    url = models.CharField(max_length=LONGEST_URL)
    secret = models.CharField(max_length=LONGEST_SECRET, help_text="the name of the secret whose keys sign")
    types = ArrayField(
        models.CharField(max_length=LONGEST_TYPE), default=list, blank=True, help_text="of events; empty: all"
    )
    cursor = models.TextField(blank=True, default="", help_text="in the event log; empty: its beginning")
    created_at = models.DateTimeField(db_default=Now())
    paused_at = models.DateTimeField(null=True, help_text="null: it is not paused")
    pause_reason = models.TextField(
        blank=True, default="", db_default="", help_text="what it answered; empty: an operator has paused it"
    )
    resumed_at = models.DateTimeField(db_default=Now(), help_text="when it was last resumed, or made")
    woken_at = models.DateTimeField(
        db_default=Now(), help_text="when webhooks that waited for another attempt were last sent at once"
    )
    error = models.TextField(blank=True, default="", db_default="", help_text="why no events are asked for now")
    missed_at = models.DateTimeField(null=True, help_text="when events were last found to be deleted undelivered")

    objects: ClassVar = EndpointQuerySet.as_manager()

    def __str__(self) -> str:
        return f"endpoint {self.pk} {self.name}"
