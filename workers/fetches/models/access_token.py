"""AccessToken: the token with which an OAuth client's requests are made, for all processes."""

from typing import ClassVar

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q


class AccessToken(models.Model):
    """What the last requests for an access token of one OAuth client brought. Without a row, none has ended.

    Another description of the client, such as another secret, has another row.
    """

    key = models.UUIDField(primary_key=True, help_text="of the client's description, made with SECRET_KEY")
    client = models.TextField(help_text="the name of the secret that describes the client")
    version = models.BigIntegerField(default=0, db_default=0, help_text="how many tokens there were")
    sealed = models.BinaryField(null=True, help_text="the newest token, encrypted")
    obtained_at = models.DateTimeField(null=True, help_text="when that token was asked for")
    expires_at = models.DateTimeField(null=True, help_text="when that token no longer counts")
    refresh_at = models.DateTimeField(help_text="when a token is asked for again")
    refused_by = ArrayField(
        models.BigIntegerField(), null=True, help_text="the sites that answered 401 to the newest token; null: none"
    )
    error = models.TextField(blank=True, default="", db_default="", help_text="why the last request brought none")

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(sealed__isnull=True, obtained_at__isnull=True, expires_at__isnull=True)
                | Q(sealed__isnull=False, obtained_at__isnull=False, expires_at__isnull=False),
                name="weir_access_token_has_times",
            ),
            models.CheckConstraint(condition=Q(sealed__isnull=False) | ~Q(error=""), name="weir_access_token_or_error"),
        ]

    def __str__(self) -> str:
        return f"access token {self.version} of {self.client}"
