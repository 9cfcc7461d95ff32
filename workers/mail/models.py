"""Email, on its way from `pending` to an end that is known or `unknown`; Resolution, an operator's word about it."""

from datetime import timedelta
from typing import ClassVar, Self

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from workers.mail.phases import Phase


class State(models.TextChoices):
    """Where an e-mail is. `sent` is final; `failed` and `unknown` are final unless an operator resolves them."""

    PENDING = "pending"  # waits until next_attempt_at
    CLAIMED = "claimed"  # a worker has it and has not begun to transmit it: taken back when the lease is over
    SENDING = "sending"  # a worker transmits it: never taken back
    SENT = "sent"  # the mail server accepted it, or an operator says that it arrived
    FAILED = "failed"  # the mail server refused it, or it could not be written: last_reply says why
    UNKNOWN = "unknown"  # it may have been accepted: phase and last_reply say what is known


HELD = (State.CLAIMED, State.SENDING, State.UNKNOWN)


class EmailQuerySet(models.QuerySet["Email"]):
    """The queries of the outbox."""

    def due(self) -> Self:
        """Return the e-mails that may be claimed now, the longest waiting first."""
        return self.filter(state=State.PENDING, next_attempt_at__lte=Now()).order_by("next_attempt_at", "pk")

    def abandoned(self) -> Self:
        """Return the claimed e-mails whose lease is over: their worker died before it began to transmit them."""
        return self.filter(state=State.CLAIMED, claimed_until__lte=Now())

    def silent(self, after: timedelta) -> Self:
        """Return the e-mails whose transmission began so long ago that no answer can come any more."""
        return self.filter(state=State.SENDING, sending_since__lte=Now() - after)

    def resolvable(self) -> Self:
        """Return the e-mails that an operator can have sent again."""
        return self.filter(state__in=(State.UNKNOWN, State.FAILED))

    def unknown(self) -> Self:
        """Return the e-mails that wait for an operator, the oldest first."""
        return self.filter(state=State.UNKNOWN).order_by("sending_since", "pk")


class Email(models.Model):
    """An e-mail to one recipient, which `kind` and `key` identify. Submitted to the mail server at most once."""

    kind = models.CharField(max_length=100, help_text="the kind of e-mail, such as order.shipped: see `kinds`")
    key = models.CharField(max_length=100, help_text="what it is about; one e-mail of a kind for each key")
    state = models.CharField(max_length=10, choices=State, default=State.PENDING)
    message_id = models.CharField(max_length=500, help_text="the header Message-ID, of every attempt")
    created_at = models.DateTimeField(db_default=Now())
    attempts = models.PositiveSmallIntegerField(default=0, help_text="those that the mail server answered or broke off")
    next_attempt_at = models.DateTimeField(db_default=Now())
    # The fence: the outcome of an attempt is written only by the worker that has the token of the claim.
    claim_token = models.UUIDField(null=True)
    claimed_by = models.CharField(max_length=300, blank=True, help_text="host and process id of the last worker")
    claimed_until = models.DateTimeField(null=True, help_text="when it is taken back from a worker that has not begun")
    sending_since = models.DateTimeField(null=True, help_text="when transmission began (the database's clock)")
    sent_at = models.DateTimeField(null=True)
    phase = models.CharField(max_length=10, choices=Phase, blank=True)
    last_reply = models.TextField(blank=True, help_text="what the mail server said last, or what happened instead")

    objects: ClassVar = EmailQuerySet.as_manager()

    class Meta:
        verbose_name = "e-mail"
        permissions: ClassVar = [("resolve_email", "Can say what became of an unknown e-mail")]
        constraints: ClassVar = [
            # `outbox.add`: each e-mail is queued once. Apps and the admin: the e-mail about a key.
            models.UniqueConstraint(fields=["kind", "key"], name="email_kind_key_unique"),
            models.CheckConstraint(condition=Q(state__in=[state.value for state in State]), name="email_state_known"),
            models.CheckConstraint(
                condition=Q(state__in=[s.value for s in HELD]) ^ Q(claim_token__isnull=True),
                name="email_held_has_token",
            ),
            models.CheckConstraint(
                condition=Q(state=State.CLAIMED) ^ Q(claimed_until__isnull=True), name="email_claimed_has_lease"
            ),
            models.CheckConstraint(
                condition=Q(state__in=[State.SENDING, State.UNKNOWN]) ^ Q(sending_since__isnull=True),
                name="email_sending_has_since",
            ),
            models.CheckConstraint(
                condition=Q(state=State.SENT) ^ Q(sent_at__isnull=True), name="email_sent_has_sent_at"
            ),
            models.CheckConstraint(condition=~Q(state=State.FAILED) | ~Q(last_reply=""), name="email_failed_says_why"),
            models.CheckConstraint(
                condition=~Q(state=State.UNKNOWN) | ~Q(phase="") & ~Q(last_reply=""),
                name="email_unknown_says_what_is_known",
            ),
        ]
        indexes: ClassVar = [
            # Claims: what is due, the longest waiting first.
            models.Index(fields=["next_attempt_at", "id"], condition=Q(state=State.PENDING), name="email_pending"),
            # Take back and give up: what is held, never more than a few hundred. Operators: what is unknown.
            models.Index(
                F("state"), F("sending_since"), condition=Q(state__in=[s.value for s in HELD]), name="email_held"
            ),
        ]

    def __str__(self) -> str:
        return f"e-mail {self.pk} ({self.state})"


class Resolution(models.Model):
    """What an operator said about an e-mail, and why, and what was known of it then. Never changed."""

    email = models.ForeignKey(Email, models.PROTECT, related_name="resolutions")
    resolved_at = models.DateTimeField(db_default=Now())
    arrived = models.BooleanField(help_text="it arrived; else: send it again")
    who = models.CharField(max_length=254)
    why = models.TextField()
    state = models.CharField(max_length=10, choices=State, help_text="the e-mail's, before")
    phase = models.CharField(max_length=10, choices=Phase, blank=True)
    last_reply = models.TextField()
    claimed_by = models.CharField(max_length=300, blank=True)

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(condition=~Q(who="") & ~Q(why=""), name="resolution_says_who_and_why"),
        ]

    def __str__(self) -> str:
        return f"{self.who}: {'it arrived' if self.arrived else 'send it again'}"
