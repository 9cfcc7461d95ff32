"""OpenProblem is something that needs somebody, from when it is seen first until it has been gone for some minutes."""

from django.db import models
from django.db.models.functions import Now


class OpenProblem(models.Model):
    """A problem that the operators of WEIR_OPERATORS are told of, once."""

    key = models.CharField(max_length=200, primary_key=True, help_text="its alarm, and what it is about")
    since = models.DateTimeField(db_default=Now(), help_text="when it was seen first")
    seen_at = models.DateTimeField(db_default=Now(), help_text="when it was seen last")
    told_at = models.DateTimeField(null=True, help_text="when operators were told of it")

    class Meta:
        default_permissions = ("view",)

    def __str__(self) -> str:
        return self.key
