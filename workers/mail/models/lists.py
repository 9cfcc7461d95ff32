"""The tables of what keeps e-mails from being sent, and of what operators did about that.

They have kinds that a person paused (PausedKind), addresses to which nothing is sent (Suppression), or nothing of a
kind (Unsubscription), relays that cannot be used at the moment (RelayHold), and acts (MailAct).
"""

from typing import ClassVar

from django.db import models
from django.db.models.functions import Now

from weir.workers.ledger.rows import SAYS_WHY, Pause


class PausedKind(Pause):
    """A kind of which no e-mail is begun, until a person resumes the kind."""


class Suppression(models.Model):
    """An address to which nothing is sent: it bounced, its owner complained or was forgotten, or staff listed it."""

    # The hash of the address in lower case, by which the address is recognised even after it was forgotten.
    address_hash = models.CharField(max_length=64, unique=True, help_text="SHA-256")
    address = models.CharField(max_length=320, blank=True, help_text="empty when it was forgotten")
    why = models.TextField()
    since = models.DateTimeField(db_default=Now())

    def __str__(self) -> str:
        return f"{self.address or self.address_hash}: {self.why}"


class Unsubscription(models.Model):
    """A kind of which nothing is sent to an address, because its owner has unsubscribed (RFC 8058)."""

    kind = models.CharField(max_length=100)
    address_hash = models.CharField(max_length=64, help_text="SHA-256 of the address in lower case")
    since = models.DateTimeField(db_default=Now())

    class Meta:
        constraints: ClassVar = [
            # Mailers look addresses up by their hashes, for one kind or several.
            models.UniqueConstraint(fields=["address_hash", "kind"], name="weir_unsubscription_unique")
        ]

    def __str__(self) -> str:
        return f"{self.address_hash}: {self.kind}"


class RelayHold(models.Model):
    """A relay that cannot be reached, or refuses us: its e-mails wait. Deleted when the relay can be used again."""

    relay = models.CharField(max_length=300, primary_key=True)
    since = models.DateTimeField(db_default=Now())
    tried_at = models.DateTimeField(db_default=Now())
    reason = models.TextField()

    def __str__(self) -> str:
        return f"{self.relay}: {self.reason}"


class MailAct(models.Model):
    """What an operator did about a kind or an address. Never changed."""

    class What(models.TextChoices):
        PAUSE = "pause", "paused the kind"
        RESUME = "resume", "resumed the kind"
        SUPPRESS = "suppress", "put the address on the suppression list"
        RELEASE = "release", "took the address off the suppression list"
        FORGET = "forget", "had the address forgotten"

    acted_at = models.DateTimeField(db_default=Now())
    what = models.CharField(max_length=10, choices=What)
    about = models.CharField(max_length=100, help_text="the kind, or the hash of the address")
    who = models.CharField(max_length=254)
    why = models.TextField()

    class Meta:
        verbose_name = "act"
        constraints: ClassVar = [models.CheckConstraint(condition=SAYS_WHY, name="weir_mail_act_says_who_and_why")]
        # For the acts about a kind, or about an address.
        indexes: ClassVar = [models.Index(fields=["about", "id"], name="weir_mail_act_about")]

    def __str__(self) -> str:
        return f"{self.who} {self.get_what_display()}"
