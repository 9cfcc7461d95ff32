"""KeptAnswer, the stored answer to a request that may be repeated."""

from typing import ClassVar, Final

from django.db import models
from django.db.models.functions import Now

from weir.api.tokens.models import Token

LONGEST_KEY: Final = 255
HASH_LENGTH: Final = 64  # hexadecimal digits of SHA-256


class KeptAnswer(models.Model):
    """The first answer to a request with an Idempotency-Key, stored in the transaction that carries out the request."""

    token = models.ForeignKey(Token, models.CASCADE, db_index=False, related_name="+")
    key = models.CharField(max_length=LONGEST_KEY)
    request_hash = models.CharField(max_length=HASH_LENGTH, help_text="SHA-256 of the method, the path and the body")
    status = models.PositiveSmallIntegerField()
    body = models.TextField(help_text="JSON")
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints: ClassVar = [
            # idempotency.once: the answer to this key of this token
            models.UniqueConstraint(fields=["token", "key"], name="weir_kept_answer_once"),
        ]
        indexes: ClassVar = [
            # idempotency.purge: the oldest
            models.Index(fields=["created_at"], name="weir_kept_answer_by_age"),
        ]

    def __str__(self) -> str:
        return f"{self.key}: {self.status}"
