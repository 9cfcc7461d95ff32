"""The clocks of those who try passwords, and where users have logged in from."""

from django.db import models


class Rate(models.Model):
    """The clock of an address or an account: how soon it may try a password again."""

    key = models.TextField(primary_key=True)
    next_attempt = models.DateTimeField(help_text="GCRA's theoretical arrival time")

    class Meta:
        indexes = [models.Index(fields=["next_attempt"], name="rate_expired")]  # for the deletion in `take`

    def __str__(self) -> str:
        return self.key


class KnownAddress(models.Model):
    """An address from which an account has logged in lately: there the account's own clock does not count."""

    key = models.TextField(primary_key=True)
    known_until = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["known_until"], name="known_address_expired")]  # for the deletion in `remember`

    def __str__(self) -> str:
        return self.key
