"""The admin page of the audit trail, which is read-only."""

from django.contrib import admin

from weir.postgres.admin import ReadOnlyAdmin
from weir.workers.audit.models import Entry


@admin.register(Entry)
class EntryAdmin(ReadOnlyAdmin[Entry]):
    """Lists the entries, the newest first: who changed what, through which door, and why."""

    list_display = ("at", "actor", "door", "action", "target", "why")
    list_filter = ("door",)
    search_fields = ("target__exact", "actor__exact", "action__exact")
    search_help_text = "a whole target, actor or action"
    ordering = ("-pk",)
    sortable_by = ()
