"""Entry, what an operator has changed."""

from typing import ClassVar, NamedTuple

from django.core.serializers.json import DjangoJSONEncoder
from django.db import models
from django.db.models.functions import Now

from weir.workers.tracing import correlation


class EntryChange(NamedTuple):
    """A value of the target that was changed; None: it was or is not there."""

    name: str
    was: object
    became: object


class Door(models.TextChoices):
    """The interface through which an operator made a change."""

    PAGE = "page"
    ADMIN = "admin"
    COMMAND = "command"
    API = "api", "API"
    CODE = "code"  # of the project, in somebody's name


class Entry(models.Model):
    """What an operator has changed. The entry commits together with the change, so neither exists without the other.

    The trigger weir_audit_entry_kept refuses to change an entry, and to delete an entry younger than 30 days.
    """

    at = models.DateTimeField(db_default=Now())
    actor = models.CharField(max_length=254, help_text="the user, the token, or the account in the operating system")
    door = models.CharField(max_length=10, choices=Door.choices, help_text="where the actor came in")
    action = models.CharField(max_length=40, help_text="what was done, such as sites.pause")
    target = models.CharField(max_length=300, help_text="what it was done to: a host, a number, a filter")
    why = models.TextField(blank=True, help_text="the reason that the actor has given")
    before = models.JSONField(
        null=True, encoder=DjangoJSONEncoder, help_text="what the target was; null: not there, or not kept"
    )
    after = models.JSONField(
        null=True, encoder=DjangoJSONEncoder, help_text="what it became; null: it is gone, or not kept"
    )
    correlation_id = models.CharField(
        max_length=correlation.LONGEST, blank=True, default="", help_text="the web request, as in log lines"
    )

    class Meta:
        verbose_name_plural = "entries"
        default_permissions = ("view",)
        indexes: ClassVar = [
            # The page and the export select by target, action or actor, and sort by id.
            models.Index(fields=["target", "-id"], name="weir_entry_by_target"),
            models.Index(fields=["action", "-id"], name="weir_entry_by_action"),
            models.Index(fields=["actor", "-id"], name="weir_entry_by_actor"),
            # The purge finds the oldest entries.
            models.Index(fields=["at"], name="weir_entry_by_time"),
        ]

    def __str__(self) -> str:
        return f"{self.actor}: {self.action} {self.target}"

    @property
    def changes(self) -> list[EntryChange]:
        """Return the values that differ before and after the change."""
        before, after = self.before or {}, self.after or {}
        values = [EntryChange(name, before.get(name), after.get(name)) for name in {**before, **after}]
        return [value for value in values if value.was != value.became]
