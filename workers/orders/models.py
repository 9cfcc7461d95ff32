"""Order; ShippedEmail, its one e-mail on the way from `pending` to an end that is known, or not; Resolution."""

from datetime import timedelta
from typing import ClassVar, Self

from django.core.validators import validate_email
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now


class OrderQuerySet(models.QuerySet["Order"]):
    """The language of orders."""

    def unshipped(self) -> Self:
        """Return those that are still to be shipped."""
        return self.filter(shipped_at=None)


class Order(models.Model):
    """What a customer ordered. `shipping.ship` ships it; sending the e-mail never locks this table."""

    number = models.CharField(max_length=50, unique=True)
    customer_email = models.CharField(max_length=254, validators=[validate_email])  # for forms: `letter` looks again
    placed_at = models.DateTimeField(db_default=Now())
    shipped_at = models.DateTimeField(null=True, blank=True, editable=False)

    objects: ClassVar = OrderQuerySet.as_manager()

    def __str__(self) -> str:
        return self.number

    @property
    def is_correctable(self) -> bool:
        """Whether its address still matters: it is not shipped, or its e-mail waits for a person."""
        return self.shipped_at is None or ShippedEmail.objects.resolvable().filter(order=self).exists()


class State(models.TextChoices):
    """Where an e-mail is. `sent` is final; `failed` and `unknown` are so unless a person says otherwise."""

    PENDING = "pending"  # waits until next_attempt_at
    CLAIMED = "claimed"  # a worker has it, and has not begun to transmit it: taken back when the lease is over
    SENDING = "sending"  # a worker transmits it: never taken back
    SENT = "sent"  # the mail server accepted it, or a person says that it arrived
    FAILED = "failed"  # the mail server refused it, or it could not be written: last_reply says why
    UNKNOWN = "unknown"  # it may have been accepted: phase and last_reply say what is known


class Phase(models.TextChoices):
    """How far the last attempt came that did not end `sent`."""

    NOT_BEGUN = "not begun"  # before the content was transmitted: certainly not accepted
    BEFORE_DOT = "before dot"  # the content was being transmitted: certainly not accepted
    AFTER_DOT = "after dot"  # all was transmitted, and no reply came: nobody can know
    BEGUN = (
        "begun"  # transmission began, and nobody told how it ended: the worker died, or its mail backend cannot tell
    )


HELD = (State.CLAIMED, State.SENDING, State.UNKNOWN)


class ShippedEmailQuerySet(models.QuerySet["ShippedEmail"]):
    """The language of the queue."""

    def due(self) -> Self:
        """Return those that may be claimed now, those that wait longest first."""
        return self.filter(state=State.PENDING, next_attempt_at__lte=Now()).order_by("next_attempt_at", "pk")

    def abandoned(self) -> Self:
        """Return the claimed ones whose lease is over: their worker died before it began to transmit them."""
        return self.filter(state=State.CLAIMED, claimed_until__lte=Now())

    def silent(self, after: timedelta) -> Self:
        """Return those whose transmission began so long ago that no answer can come any more."""
        return self.filter(state=State.SENDING, sending_since__lte=Now() - after)

    def resolvable(self) -> Self:
        """Return those that a person can have sent again."""
        return self.filter(state__in=(State.UNKNOWN, State.FAILED))

    def unknown(self) -> Self:
        """Return those that wait for a person, the oldest first."""
        return self.filter(state=State.UNKNOWN).order_by("sending_since", "pk")


class ShippedEmail(models.Model):
    """The e-mail that says that an order was shipped. Submitted to the mail server once at most."""

    order = models.OneToOneField(Order, models.PROTECT, related_name="shipped_email")
    state = models.CharField(max_length=10, choices=State, default=State.PENDING)
    message_id = models.CharField(max_length=320, help_text="the header Message-ID, of every attempt")
    created_at = models.DateTimeField(db_default=Now())
    attempts = models.PositiveSmallIntegerField(default=0, help_text="those that the mail server answered or broke off")
    next_attempt_at = models.DateTimeField(db_default=Now())
    # The fence: what becomes of an e-mail is written only by who still has the token that it was claimed with.
    claim_token = models.UUIDField(null=True)
    claimed_by = models.CharField(max_length=300, blank=True, help_text="host and process id of the last worker")
    claimed_until = models.DateTimeField(null=True, help_text="when it is taken back from a worker that has not begun")
    sending_since = models.DateTimeField(null=True, help_text="when transmission began (the database's clock)")
    sent_at = models.DateTimeField(null=True)
    phase = models.CharField(max_length=10, choices=Phase, blank=True)
    last_reply = models.TextField(blank=True, help_text="what the mail server said last, or what happened instead")

    objects: ClassVar = ShippedEmailQuerySet.as_manager()

    class Meta:
        verbose_name = "shipped e-mail"
        permissions: ClassVar = [("resolve_shippedemail", "Can say what became of an unknown shipped e-mail")]
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(state__in=[state.value for state in State]), name="shippedemail_state_known"
            ),
            models.CheckConstraint(
                condition=Q(state__in=[s.value for s in HELD]) ^ Q(claim_token__isnull=True),
                name="shippedemail_held_has_token",
            ),
            models.CheckConstraint(
                condition=Q(state=State.CLAIMED) ^ Q(claimed_until__isnull=True), name="shippedemail_claimed_has_lease"
            ),
            models.CheckConstraint(
                condition=Q(state__in=[State.SENDING, State.UNKNOWN]) ^ Q(sending_since__isnull=True),
                name="shippedemail_sending_has_since",
            ),
            models.CheckConstraint(
                condition=Q(state=State.SENT) ^ Q(sent_at__isnull=True), name="shippedemail_sent_has_sent_at"
            ),
            models.CheckConstraint(
                condition=~Q(state=State.FAILED) | ~Q(last_reply=""), name="shippedemail_failed_says_why"
            ),
            models.CheckConstraint(
                condition=~Q(state=State.UNKNOWN) | ~Q(phase="") & ~Q(last_reply=""),
                name="shippedemail_unknown_says_what_is_known",
            ),
        ]
        indexes: ClassVar = [
            # Claims: what is due, those that wait longest first.
            models.Index(
                fields=["next_attempt_at", "id"], condition=Q(state=State.PENDING), name="shippedemail_pending"
            ),
            # Take back and give up: what is held, never more than a few hundred. Operators: what is unknown.
            models.Index(
                F("state"),
                F("sending_since"),
                condition=Q(state__in=[s.value for s in HELD]),
                name="shippedemail_held",
            ),
        ]

    def __str__(self) -> str:
        return f"shipped e-mail {self.pk} ({self.state})"


class Resolution(models.Model):
    """What a person said about an e-mail, who and why, and what was known of it then. Never changed."""

    email = models.ForeignKey(ShippedEmail, models.PROTECT, related_name="resolutions")
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
