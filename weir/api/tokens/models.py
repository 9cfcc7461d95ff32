"""Token, the credentials of a program that uses the API."""

from typing import ClassVar, Final

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

LONGEST_NAME: Final = 100
SITE_PREFIX: Final = "token~"  # no host in a URL begins with this
HASH_LENGTH: Final = 64  # hexadecimal digits of SHA-256


class Token(models.Model):
    """A program's access to the API, and the scopes of this access. Only the hash of the secret is stored."""

    name = models.CharField(max_length=LONGEST_NAME, unique=True, help_text="as the audit trail names the program")
    program = models.CharField(
        max_length=LONGEST_NAME,
        blank=True,
        default="",
        db_default="",
        help_text="the name of the first token of its program; empty: it is the first",
    )
    secret_hash = models.CharField(max_length=HASH_LENGTH, unique=True, editable=False)
    scopes = ArrayField(models.CharField(max_length=100), help_text="permissions that it has")
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    expires_at = models.DateTimeField(help_text="from then on requests with it are refused")
    revoked_at = models.DateTimeField(null=True, editable=False)
    last_used_at = models.DateTimeField(null=True, editable=False, help_text="within a minute")

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(condition=~Q(scopes=[]), name="weir_token_has_scopes"),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def of_program(self) -> str:
        """The name by which Weir knows the program, whatever token it has now."""
        return self.program or self.name

    @property
    def site(self) -> str:
        """The name of the site whose rate limits the token's requests."""
        return f"{SITE_PREFIX}{self.pk}"
