"""The models of events: NewEvent as its transaction writes it, Event as it is read, EventLog as the switch."""

from typing import ClassVar, Final

from django.db import models
from django.db.models.functions import Now

from weir.conf.texts.references import LONGEST_REFERENCE

LONGEST_KIND: Final = 100  # characters, as of an e-mail's kind


class Subject(models.TextChoices):
    """What has ended. A type of events begins with it, such as `fetch.done`."""

    FETCH = "fetch"
    EMAIL = "email"
    EFFECT = "effect"


class _Ended(models.Model):
    """What both tables of events have."""

    subject = models.CharField(max_length=10, choices=Subject, help_text="what has ended")
    subject_id = models.BigIntegerField(help_text="of the fetch, e-mail or effect; the row may be gone")
    state = models.CharField(max_length=10, help_text="in which it ended")
    kind = models.CharField(max_length=LONGEST_KIND, db_default="", help_text="of an e-mail or an effect")
    reference = models.CharField(
        max_length=LONGEST_REFERENCE,
        db_default="",
        help_text="the caller's: the fetch's reference, the e-mail's or effect's key",
    )
    at = models.DateTimeField(help_text="when it ended")

    class Meta:
        abstract = True

    @property
    def type(self) -> str:
        """Such as `fetch.done`."""
        return f"{self.subject}.{self.state}"


class NewEvent(_Ended):
    """An end that is not in the log yet. Triggers write it, in the transaction of the end."""

    id = models.BigAutoField(primary_key=True, help_text="in no order of commits")

    def __str__(self) -> str:
        return f"new event {self.pk}: {self.type} {self.subject_id}"


class Event(_Ended):
    """An end, in the log. Ids grow in the order in which events became visible: none comes later with a lower id."""

    id = models.BigAutoField(primary_key=True, help_text="tells events apart; the order of the log")

    class Meta:
        # Reading: what comes after an event, of fetches, of e-mails or of effects.
        indexes: ClassVar = [models.Index(fields=["subject", "id"], name="weir_event_of_subject")]

    def __str__(self) -> str:
        return f"event {self.pk}: {self.type} {self.subject_id}"


class EventLog(models.Model):
    """The one row that is there while events are kept: triggers write events only then."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    key = models.UUIDField(help_text="another one each time that events begin to be kept; cursors have it")
    since = models.DateTimeField(db_default=Now(), help_text="when events began to be kept")
    purged_fetch_id = models.BigIntegerField(
        default=0, db_default=0, help_text="the highest id of a deleted event of a fetch"
    )
    purged_email_id = models.BigIntegerField(default=0, db_default=0, help_text="as above, of an e-mail")
    purged_effect_id = models.BigIntegerField(default=0, db_default=0, help_text="as above, of an effect")

    class Meta:
        constraints: ClassVar = [
            # `append` locks it, so that one at a time gives ids.
            models.CheckConstraint(condition=models.Q(id=1), name="weir_event_log_is_one_row"),
        ]

    def __str__(self) -> str:
        return f"events are kept since {self.since}"
