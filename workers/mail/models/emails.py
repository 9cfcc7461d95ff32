"""The tables of e-mails.

Email has one row for each, from `pending` to its end, Rendering has what is transmitted, and Resolution what people,
logs and reports said.
"""

from datetime import timedelta
from typing import ClassVar, Self

from django.contrib.postgres.indexes import BrinIndex
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Collate, Lower, Now

from weir.workers.ledger.rows import HAS_REPLY, SAYS_WHY, LedgerQuerySet, LedgerRow, only_in
from weir.workers.mail.models.lists import PausedKind
from weir.workers.mail.phases import HELD, NOT_BEGUN, UNSENT, EmailState, Phase

# The expression in the index of addresses. Because of the collation C, the index also serves searches for a prefix.
LOWER_RECIPIENT = Collate(Lower("recipient"), "C")

_PENDING, _NOT_SENT = Q(state=EmailState.PENDING), ~Q(state=EmailState.SENT)


class Act(models.TextChoices):
    """What a Resolution did."""

    ARRIVED = "arrived", "it arrived"
    RESEND = "resend", "send it again"
    GIVE_UP = "give up", "leave it unsent"
    CANCEL = "cancel", "do not send it"
    CORRECT = "correct", "render it anew"
    BOUNCED = "bounced", "it came back"


class EmailQuerySet(LedgerQuerySet["Email"]):
    """The queries of the outbox."""

    def claimable(self) -> Self:
        """Return the e-mails that a mailer would claim now: those that are due, and whose kind is not paused."""
        return self.due().exclude(kind__in=PausedKind.objects.values("kind"))

    def silent(self, after: timedelta) -> Self:
        """Return the e-mails whose transmission began at least `after` ago: no answer can come any more."""
        return self.filter(state=EmailState.SENDING, sending_since__lte=Now() - after)

    def unknown(self) -> Self:
        """Return the e-mails that wait for an operator, the oldest first."""
        return self.filter(state=EmailState.UNKNOWN).order_by("sending_since", "pk")


class Email(LedgerRow):
    """An e-mail to one recipient: `kind` and `key` identify it. It is submitted to a relay at most once."""

    kind = models.CharField(max_length=100, help_text="the kind of e-mail, such as order.shipped: see `kinds`")
    key = models.CharField(max_length=100, help_text="what it is about; one e-mail of a kind for each key")
    recipient = models.CharField(
        max_length=320, blank=True, default="", db_default="", help_text="the address; empty when it was forgotten"
    )
    recipient_name = models.CharField(
        max_length=200, blank=True, default="", db_default="", help_text="as in To: Name <address>"
    )
    language = models.CharField(
        max_length=20, blank=True, default="", db_default="", help_text="that it is rendered in"
    )
    state = models.CharField(max_length=10, choices=EmailState, default=EmailState.PENDING)
    message_id = models.CharField(max_length=500, help_text="the header Message-ID, of every attempt")
    is_id_shared = models.BooleanField(default=False, db_default=False, help_text="others may know its Message-ID")
    envelope_sender = models.CharField(max_length=320, blank=True, default="", db_default="", help_text="empty: as set")
    attempts = models.PositiveSmallIntegerField(default=0, help_text="those that the mail server answered or broke off")
    claimed_until = models.DateTimeField(null=True, help_text="when it is taken back from a worker that has not begun")
    sending_since = models.DateTimeField(null=True, help_text="when transmission began (the database's clock)")
    sent_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(
        null=True, help_text="when it came into the state in which it ended; empty in rows from before this column"
    )
    phase = models.CharField(max_length=10, choices=Phase, blank=True)
    last_reply = models.TextField(blank=True, help_text="what the relay said last, or what happened instead")
    # About what is transmitted. The bytes are deleted after WEIR_MAIL_CONTENT_RETENTION; these columns stay.
    renderings = models.PositiveSmallIntegerField(default=0, db_default=0, help_text="how often it was rendered")
    subject = models.CharField(
        max_length=200, blank=True, default="", db_default="", help_text="for lists; as rendered last"
    )
    content_hash = models.CharField(
        max_length=64, blank=True, default="", db_default="", help_text="SHA-256, as rendered last"
    )
    content_size = models.PositiveIntegerField(default=0, db_default=0, help_text="bytes, as rendered last")
    # Where the last attempt went.
    relay = models.CharField(
        max_length=300, blank=True, default="", db_default="", help_text="the relay of the last attempt"
    )
    provider_id = models.CharField(
        max_length=300, blank=True, default="", db_default="", help_text="the name that a provider gave it"
    )
    ask_until = models.DateTimeField(
        null=True, help_text="until then the relay knows the idempotency key: asking again settles an unknown outcome"
    )
    # What reports and providers' webhooks say about it.
    delivered_at = models.DateTimeField(null=True, help_text="when a report says that the recipient's server took it")
    complained_at = models.DateTimeField(null=True, help_text="when its recipient complained of it")

    tells: object = None  # what the mailer's draft tells (kinds.Drafting); not a column

    objects: ClassVar = EmailQuerySet.as_manager()

    class Meta:
        verbose_name = "e-mail"
        permissions: ClassVar = [
            ("resolve_email", "Can say what became of an e-mail, cancel it, and pause kinds"),
            ("redirect_email", "Can have an e-mail that may be resolved go to another address, and so read it"),
        ]
        constraints: ClassVar = [
            # `outbox.send_once` queues each e-mail once. Apps and the admin find the e-mail with a key.
            models.UniqueConstraint(fields=["kind", "key"], name="weir_email_kind_key_unique"),
            models.CheckConstraint(condition=Q(state__in=EmailState.values), name="weir_email_state_known"),
            only_in(HELD, "claim_token", "weir_email_held_has_token"),
            only_in([EmailState.CLAIMED], "claimed_until", "weir_email_claimed_has_lease"),
            only_in([EmailState.SENDING, EmailState.UNKNOWN], "sending_since", "weir_email_sending_has_since"),
            only_in([EmailState.SENT, EmailState.BOUNCED], "sent_at", "weir_email_sent_has_sent_at"),
            models.CheckConstraint(
                condition=~Q(state=EmailState.FAILED) | HAS_REPLY, name="weir_email_failed_says_why"
            ),
            models.CheckConstraint(
                condition=~Q(state=EmailState.UNKNOWN) | ~Q(phase="") & HAS_REPLY,
                name="weir_email_unknown_says_what_is_known",
            ),
        ]
        indexes: ClassVar = [
            # What is due, whatever its kind: for `status`, and to decide whether to wake a mailer.
            models.Index(fields=["next_attempt_at", "id"], condition=_PENDING, name="weir_email_pending"),
            # For claims: the queue of each kind and priority; e-mails that wait longest come first.
            models.Index(
                fields=["kind", "priority", "next_attempt_at", "id"], condition=_PENDING, name="weir_email_queues"
            ),
            # To take back and give up what mailers hold, a few hundred at most. For operators: what is unknown.
            models.Index(
                F("state"), F("sending_since"), condition=Q(state__in=[s.value for s in HELD]), name="weir_email_held"
            ),
            # For expiry: the waiting and claimed e-mails that expire.
            models.Index(
                fields=["expires_at"],
                condition=Q(state__in=[s.value for s in NOT_BEGUN], expires_at__isnull=False),
                name="weir_email_expires",
            ),
            # For lists of a state, the oldest first. Sent e-mails are nearly all, and are left out.
            models.Index(fields=["state", "created_at", "id"], condition=_NOT_SENT, name="weir_email_not_sent"),
            # For the number, and the list, of a kind's e-mails that were not sent.
            models.Index(
                fields=["kind", "state", "created_at", "id"],
                condition=Q(state__in=[s.value for s in UNSENT]),
                name="weir_email_unsent_by_kind",
            ),
            # For the admin's list of a kind, the newest first.
            models.Index(fields=["kind", "id"], name="weir_email_kind"),
            # To search by an address, or by its beginning.
            models.Index(LOWER_RECIPIENT, F("id"), name="weir_email_recipient"),
            # For history: which e-mails ended in a minute. BRIN is small; e-mails end in about the order of their rows.
            BrinIndex(fields=["ended_at"], name="weir_email_by_end", autosummarize=True),
            # Logs and delivery reports name e-mails by their Message-IDs.
            models.Index(fields=["message_id"], name="weir_email_message_id"),
            # Delivery reports of providers that replace the Message-ID by an id of their own.
            models.Index(fields=["provider_id"], condition=~Q(provider_id=""), name="weir_email_provider_id"),
        ]

    def __str__(self) -> str:
        return f"e-mail {self.pk} ({self.state})"


class Rendering(models.Model):
    """What is transmitted of an e-mail: written once, before the first attempt, and the same in every attempt.

    An e-mail of a drafted kind is written before each attempt, unless its relay is asked what became of the last one.
    """

    email = models.OneToOneField(Email, models.CASCADE, primary_key=True, related_name="rendering")
    content = models.BinaryField(help_text="the e-mail with its headers (RFC 5322)")
    rendered_at = models.DateTimeField(db_default=Now())

    class Meta:
        # For the purge after the retention.
        indexes: ClassVar = [models.Index(fields=["rendered_at"], name="weir_rendering_rendered_at")]

    def __str__(self) -> str:
        return f"rendering of e-mail {self.pk}"


class Resolution(models.Model):
    """What an operator, a log or a report said about an e-mail, and what was known then. Only forgetting changes it."""

    email = models.ForeignKey(Email, models.PROTECT, related_name="resolutions")
    resolved_at = models.DateTimeField(db_default=Now())
    act = models.CharField(max_length=10, choices=Act, blank=True, db_default="", help_text="empty in old rows")
    arrived = models.BooleanField(db_default=False, help_text="it arrived: what old rows say instead of `act`")
    who = models.CharField(max_length=254)
    why = models.TextField()
    state = models.CharField(max_length=10, choices=EmailState, help_text="the e-mail's, before")
    phase = models.CharField(max_length=10, choices=Phase, blank=True)
    last_reply = models.TextField()
    claimed_by = models.CharField(max_length=300, blank=True)

    class Meta:
        constraints: ClassVar = [models.CheckConstraint(condition=SAYS_WHY, name="weir_resolution_says_who_and_why")]

    def __str__(self) -> str:
        return f"{self.who}: {self.done.label}"

    @property
    def done(self) -> Act:
        """What the resolution did, even for a row of an earlier release."""
        return Act(self.act) if self.act else Act.ARRIVED if self.arrived else Act.RESEND
