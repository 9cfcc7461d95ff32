"""The clocks of attempts to log in, the addresses from which users have logged in, and links that log a user in."""

from django.conf import settings
from django.db import models


class Rate(models.Model):
    """The clock of an address or an account: how soon a password may be tried again."""

    key = models.TextField(primary_key=True)
    next_attempt = models.DateTimeField(help_text="GCRA's theoretical arrival time")

    class Meta:
        indexes = [models.Index(fields=["next_attempt"], name="weir_rate_expired")]  # for the deletion in `take`

    def __str__(self) -> str:
        return self.key


class KnownAddress(models.Model):
    """An address from which an account has logged in lately: the account's own clock does not count at this address."""

    key = models.TextField(primary_key=True)
    known_until = models.DateTimeField()

    class Meta:
        # for the deletion in `remember`
        indexes = [models.Index(fields=["known_until"], name="weir_known_address_expired")]

    def __str__(self) -> str:
        return self.key


class Link(models.Model):
    """A link that logs a user in once; its use deletes the row."""

    token_hash = models.BinaryField(primary_key=True, max_length=32, help_text="SHA-256 of the token")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, db_index=False, related_name="+")
    good_until = models.DateTimeField()

    def __str__(self) -> str:
        return f"link for user {self.user_id}"
