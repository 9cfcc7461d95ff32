"""The table of users' preferences: by which channel a user is told of a kind of notification."""

from typing import ClassVar

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from weir.notifications import user_keys


class Channel(models.TextChoices):
    """How a user is told of a notification."""

    PAGE = "page", "on the page"  # unread until the user reads it
    EMAIL = "email", "by an e-mail of its own"  # at once, unless the user reads it before the e-mail is begun
    DIGEST = "digest", "by a digest, unless it is read before"
    NONE = "none", "not at all"  # nothing is stored, and nothing is counted


class Preference(models.Model):
    """The channel that a user has chosen for a kind of notification, in place of the kind's own."""

    id = models.BigAutoField(primary_key=True)
    user_id = user_keys.field()
    kind = models.CharField(
        max_length=100, blank=True, help_text="empty: all kinds that would be told by digest, and were not chosen"
    )
    channel = models.CharField(max_length=10, choices=Channel)
    since = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        constraints: ClassVar = [
            # channels.preferences and notify_by_channel.sql
            models.UniqueConstraint(fields=["user_id", "kind"], name="weir_preference_unique"),
            models.CheckConstraint(condition=Q(channel__in=Channel.values), name="weir_preference_channel_known"),
        ]

    def __str__(self) -> str:
        return f"{self.kind or 'digests'}: {self.channel}"
